"""Where a model comes from: a folder, the hub, or a wheel; and the folder that is made of it."""
