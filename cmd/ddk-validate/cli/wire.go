package cli

import (
	"errors"
	"net/netip"
	"strconv"

	"ciddk/validate"
)

// wireCmd is the command wire: run with the driver Config.Peer and its cases.
type wireCmd struct {
	Peer    netip.Addr `required:"" help:"Address of the adapter." placeholder:"ADDR"`
	Local   string     `help:"Address to send from." placeholder:"ADDR"`
	Program string     `default:"rping" help:"Program that runs there; see 'drivers'."`
	Port    uint16     `help:"Port on which it listens. Default: its own."`
	Size    int        `help:"Bytes that it was started with (-s, rping: -S). Default: its own."`
	MTU     int        `name:"mtu" help:"Path MTU that it was started with. Default: 1024."`
	runFlags
}

// Run executes the command.
func (w *wireCmd) Run(a *app) error {
	r := runCmd{Driver: a.Config.Peer.Name, runFlags: w.runFlags}
	if r.Set == nil {
		r.Set = map[string]string{}
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	for key, v := range map[string]string{"peer": w.Peer.String(), "local": w.Local, "program": w.Program,
		"port": number(int(w.Port)), "size": number(w.Size), "mtu": number(w.MTU)} {
		if v != "" {
			r.Set[key] = v
		}
	}
	if r.Profile == "" {
		r.Profile = "wire"
	}
	if a.Config.Peer.Open == nil {
		return errors.New("this program has no cases for adapters that it does not drive")
	}
	return r.Run(a)
}

// of returns the app with the cases of a driver: a itself, or one for Config.Peer.
func (a *app) of(driver string) *app {
	if driver == "" || driver != a.Config.Peer.Name || a.isPeer {
		return a
	}
	p := *a
	p.isPeer = true
	p.Drivers, p.Suites, p.Mutants = []validate.Driver{a.Config.Peer}, []validate.Suite{a.PeerSuite}, nil
	if err := p.link(); err != nil {
		panic("validate: " + err.Error()) // a mistake of the program
	}
	return &p
}
