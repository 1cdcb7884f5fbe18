"""The only part that talks to Spark: sessions, frames, surgery on analysed plans, and the door that lanes knock at."""
