"""Rules of derivatives, and records continued backwards."""
