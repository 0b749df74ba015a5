"""Computes Mantissa's cells with PyTorch: `mantissa run SUITE --peer 'python3 -m mantissa_torch'`."""
