"""What each rule computes: one module a stage, tables in, tables out; and what stages share."""
