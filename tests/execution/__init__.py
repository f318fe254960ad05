"""Tests of running code and looking into kernels."""
