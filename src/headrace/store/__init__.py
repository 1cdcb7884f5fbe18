"""The store: one transactional database that holds tables, memory and ledger."""
