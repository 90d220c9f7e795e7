package almutants

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap/faults"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/alsuite"
)

// verbFaults are drivers of which one verb fails.
func verbFaults() []mutant.Mutant {
	return []mutant.Mutant{
		fault("al.keeps-some-fmrs", alsuite.CIPool04, "FMRs can be unmapped twice only", fails("PD.UnmapFMRs", 2, 0)),
		fault("al.keeps-pool-fmrs", alsuite.CIPool05, "an FMR cannot be destroyed", fails("FMR.Destroy", 0, 0)),
		fault("al.keeps-mappings", alsuite.CIPool06, "memory that is mapped for DMA cannot be unmapped",
			fails("DMA.Destroy", 0, 0)),
		fault("al.two-fast-regions", alsuite.CIPool07, "two regions for fast registration can be created only",
			fails("PD.AllocFastRegMR", 2, 0)),
		fault("al.keeps-waited-cqs", alsuite.CIPump07, "a CQ cannot be destroyed", fails("CQ.Destroy", 0, 0)),
		fault("al.keeps-pumped-cqs", alsuite.CIPump08, "a CQ cannot be destroyed", fails("CQ.Destroy", 0, 0)),
		fault("al.keeps-srqs", alsuite.CICreate01, "an SRQ cannot be destroyed", fails("SRQ.Destroy", 0, 0)),
		fault("al.keeps-all-cqs", alsuite.CICreate02, "a CQ cannot be destroyed", fails("CQ.Destroy", 0, 0)),
		fault("al.keeps-all-qps", alsuite.CICreate03, "a QP cannot be destroyed", fails("QP.Destroy", 0, 0)),
		fault("al.keeps-windows", alsuite.CIVerb01, "a window cannot be destroyed", fails("MW.Destroy", 0, 0)),
		fault("al.keeps-an-srq", alsuite.CIVerb02, "the first destroy of an SRQ fails", fails("SRQ.Destroy", 0, 1)),
		fault("al.keeps-pds", alsuite.CIOrder01, "a PD cannot be destroyed", fails("PD.Destroy", 0, 0)),
		fault("al.fixed-regions", alsuite.CIOrder02, "a region cannot be modified", fails("MR.Modify", 0, 0)),
		fault("al.keeps-timed-cqs", alsuite.CISetting01, "a CQ cannot be destroyed", fails("CQ.Destroy", 0, 0)),
		fault("al.keeps-strict-pds", alsuite.CISetting02, "a PD cannot be destroyed", fails("PD.Destroy", 0, 0)),
		fault("al.keeps-deep-srqs", alsuite.CISetting03, "an SRQ cannot be destroyed", fails("SRQ.Destroy", 0, 0)),
		fault("al.keeps-cas", alsuite.CISetting04, "a CA cannot be closed", fails("CA.Destroy", 0, 0)),
		fault("al.keeps-shared-qps", alsuite.CIOrder03, "a QP cannot be destroyed", fails("QP.Destroy", 0, 0)),
	}
}

// fails makes a verb of an adapter fail after so many calls, so often. 0 is always.
func fails(verb string, skip, count uint64) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		inj := faults.New(1)
		inj.MustAdd(faults.Rule{Verb: verb, Status: ci.ErrorStatus, Skip: skip, Count: count})
		return inj.Wrap(h)
	}
}
