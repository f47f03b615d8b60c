"""The tools of the e2e group."""
