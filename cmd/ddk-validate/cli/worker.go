package cli

import (
	"context"
	"fmt"

	"ciddk/validate"
)

// Run runs cases for the parent process. Its output is evidence.
func (w *workerCmd) Run(a *app) error {
	a = a.of(w.Driver)
	d, err := a.driver(w.Driver, w.Through)
	if err != nil {
		return err
	}
	if w.Mutant != "" {
		m, err := a.mutants.Get(w.Mutant)
		if err != nil {
			return err
		}
		d = m.Driver(d)
	}
	if err := w.check(validate.DefaultTimeout); err != nil {
		return err
	}
	s := w.setting()
	s.Worker, s.Options.Run = w.Index, w.RunID
	s.PcapDir, s.PcapAll = w.Pcap, w.PcapAll
	// An interrupt from the terminal reaches the whole process group. The parent handles it.
	if err := validate.ServeWorker(context.WithoutCancel(a.ctx), a.catalog, d, s); err != nil {
		return &exitError{validate.ExitHarness, fmt.Errorf("worker %d: %w", w.Index, err)}
	}
	return nil
}
