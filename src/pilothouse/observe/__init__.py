"""Console, network and bodies of any Chrome tab, over the DevTools protocol."""
