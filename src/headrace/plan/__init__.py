"""How each table is kept: pure Python over Spark's analysed plans. No session is known here."""
