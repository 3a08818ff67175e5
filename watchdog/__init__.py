"""serving-watchdog: is this inference host lossless but slow, and who should know?"""

__product__ = "serving-watchdog"
__version__ = "0.1.0"
