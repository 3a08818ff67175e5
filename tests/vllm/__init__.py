"""The watchdog against a real vLLM; minutes a test, so only `make test-vllm` runs it."""
