package alsuite

import (
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Consumption of completions by polling and by events.
var pumps = area()

var CIPump01 = pumps.Must("CI-Pump-01", "CI access layer", "accesslayer, CQ.NewPump",
	"A pump delivers every completion once and in order, in each of its modes: polling, sleeping, or both.")

var (
	_ = pumps.Case(pumpIn("event", accesslayer.PollEvent), CIPump01)
	_ = pumps.Case(pumpIn("busy", accesslayer.PollBusy), CIPump01)
	_ = pumps.Case(pumpIn("hybrid", accesslayer.PollHybrid), CIPump01)
)

// pumpIn returns the case for a poll mode.
func pumpIn(name string, mode accesslayer.PollMode) validate.Case {
	return validate.Case{
		ID:    "al.pump." + name,
		Title: "pump 600 messages, mode " + name,
		Run:   func(t *validate.T) { pump(t, mode) },
	}
}

func pump(t *validate.T, mode accesslayer.PollMode) {
	const messages, depth = 600, 64
	s := registered(t)
	p := s.pair(kit.Depth(depth))
	p.B.Recv(p.B.RecvWRs(depth, 1)...)
	posted := uint64(depth)
	next := uint64(1)
	finished := make(chan error, 8)
	handed, err := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ").NewPump(accesslayer.PumpConfig{Mode: mode,
		Handle: func(wcs []ci.WC) {
			for _, wc := range wcs {
				if wc.ID != next || wc.Status != ci.WCSuccess {
					finished <- fmt.Errorf("delivered %s, but request %d is next", kit.Completions([]ci.WC{wc}), next)
					return
				}
				if next == messages {
					finished <- nil
				}
				next++
				if posted < messages {
					posted++
					if n, err := p.B.PostRecv([]ci.RecvWR{p.B.RecvWR(posted, int(posted%depth), 1)}); n != 1 {
						finished <- err
						return
					}
				}
			}
		}})
	kit.OK(t, err, "CQ.NewPump")
	for sent := 0; sent < messages; sent += depth / 2 {
		n := min(depth/2, messages-sent)
		p.A.Send(p.A.SendWRs(n)...)
		p.A.CQ.Wait(n)
	}
	kit.OK(t, expect(t, finished, fmt.Sprintf("delivery of %d completions", messages)),
		"completions that the pump delivers")
	none(t, finished, "completions after the last one")
	kit.OK(t, handed.Destroy(), "Pump.Destroy")
	p.B.RecvCQ.Empty()
}

var CIPump02 = pumps.Must("CI-Pump-02", "CI access layer", "accesslayer, CQ.Wait",
	"A CQ.Wait on an empty CQ returns when the next completion arrives.")

var _ = pumps.Case(validate.Case{ID: "al.wait", Title: "wait for single completions", Run: wait}, CIPump02)

func wait(t *validate.T) {
	s := registered(t)
	p := s.pair()
	cq := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ")
	got := make(chan error, 1)
	for i := range uint64(50) {
		waiting := make(chan struct{})
		t.Go(func() {
			wc := make([]ci.WC, 4)
			close(waiting)
			n, err := cq.Wait(t.Context(), wc)
			if err == nil && (n != 1 || wc[0].ID != i) {
				err = fmt.Errorf("CQ.Wait returned %d completions: %s", n, kit.Completions(wc[:n]))
			}
			got <- err
		})
		<-waiting
		p.B.Recv(p.B.RecvWR(i, 0, 1))
		p.A.Send(p.A.SendWR(i, 0, 1))
		kit.OK(t, expect(t, got, "CQ.Wait after a message has arrived"), "CQ.Wait")
		p.A.CQ.WaitOK(i)
	}
}

var CIPump03 = pumps.Must("CI-Pump-03", "CI access layer", "accesslayer, CQ.NewPump",
	"A closed pump delivers nothing more, and undelivered completions stay in the CQ.")

var _ = pumps.Case(validate.Case{ID: "al.pump.close", Title: "close a pump under load", Run: pumpClose}, CIPump03)

func pumpClose(t *validate.T) {
	s := registered(t)
	p := s.pair(kit.Depth(64))
	p.B.Recv(p.B.RecvWRs(64, 1)...)
	handed := make(chan int, 256)
	release, destroyed := make(chan struct{}), make(chan error, 1)
	slow, err := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ").NewPump(accesslayer.PumpConfig{Batch: 1,
		Handle: func(wc []ci.WC) { handed <- len(wc); <-release }})
	kit.OK(t, err, "CQ.NewPump")
	p.A.Send(p.A.SendWRs(64)...)
	expect(t, handed, "first completion that the pump delivers")
	p.A.CQ.Wait(64)
	// The pump is closed while its first call of Handle runs. If this goroutine is late, Handle is called again, and
	// the case tests less.
	t.Go(func() { destroyed <- slow.Destroy() })
	select {
	case err := <-destroyed:
		destroyed <- err
	case <-time.After(5 * time.Millisecond):
	}
	close(release)
	kit.OK(t, expect(t, destroyed, "Pump.Destroy"), "Pump.Destroy under load")
	n := 1
	for len(handed) > 0 {
		n += <-handed
	}
	none(t, handed, "completions that a closed pump delivers")
	for i, wc := range p.B.RecvCQ.Wait(64 - n) {
		kit.Equal(t, "WC.ID of a completion that the pump left in the CQ", wc.ID, uint64(n+i+1))
	}
	p.B.RecvCQ.Empty()
}
