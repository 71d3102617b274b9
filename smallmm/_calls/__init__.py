"""How a call reaches the core: arrays of any library, results, errors, arithmetic over namespaces."""
