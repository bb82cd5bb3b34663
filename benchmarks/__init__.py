"""Speed and accuracy, measured: `python -m benchmarks NAME` runs one of them."""
