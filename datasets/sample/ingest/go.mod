module larderwatch/ingest

go 1.22
