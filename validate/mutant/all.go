package mutant

// All returns every list of mutants. Each is on its own line, so that additions do not conflict.
func All() [][]Mutant {
	return [][]Mutant{
		Basic(),
		Hollow(),
		QPState(),
		Teardown(),
		Heap(),
		Adapter(),
		Datagram(),
		CQNotify(),
		Memory(),
		Windows(),
		Queues(),
		Objects(),
		DataPath(),
		Remote(),
		HostAtomics(),
		Faults(),
		Nothing(),
		Migration(),
		Statuses(),
		Stale(),
		Reread(),
		Rules(),
		Placement(),
	}
}
