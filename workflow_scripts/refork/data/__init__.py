"""Tables on disk: schemas, typed readers, atomic writers, importers."""
