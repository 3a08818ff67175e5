"""Pure: no I/O and no clock. Time comes in as the argument `now`, in Unix seconds."""
