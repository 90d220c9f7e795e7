package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
)

type statusCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run implements the command.
func (c *statusCmd) Run(p *program) error {
	r, err := p.call(request{Do: "status"})
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(p.out)
		e.SetIndent("", "  ")
		return e.Encode(r.Status)
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tPORT\tLID\tSTATE\tRATE\tPEER\tSENT PACKETS\tRECEIVED PACKETS\tHERE")
	for _, n := range r.Status.Nodes {
		for _, x := range n.Ports {
			lid := x.LID
			if n.Kind == "Switch" {
				lid = n.LID
			}
			peer := "-"
			if x.Peer != "" {
				peer = fmt.Sprintf("%s:%d", x.Peer, x.PeerPort)
			}
			if x.Cut {
				peer += " (cut)"
			}
			here := ""
			if x.Adapter {
				here = "adapter "
			}
			if x.Clients > 0 {
				here += fmt.Sprintf("%d programs", x.Clients)
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%s\n", n.ID, x.Num, lid, x.State, x.Rate, peer, x.Sent,
				x.Received, here)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Status.Drops)) {
		fmt.Fprintf(p.out, "dropped (%s): %d\n", name, r.Status.Drops[name])
	}
	return nil
}
