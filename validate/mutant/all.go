package mutant

// All gives every list of mutants, one line each, so that new lists do not collide.
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
	}
}
