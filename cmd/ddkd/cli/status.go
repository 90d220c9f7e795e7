package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"ciddk/kproxy"
	"ciddk/ual"
)

type statusCmd struct {
	Socket string        `help:"Socket of the daemon." placeholder:"PATH"`
	JSON   bool          `name:"json" help:"Print JSON, for scripts. With --watch: one line each time."`
	Watch  bool          `help:"Print again until interrupted, also while the daemon restarts."`
	Every  time.Duration `help:"Time between two prints of --watch." default:"1s" placeholder:"TIME"`
}

// Run prints the status of a running daemon.
func (s *statusCmd) Run(ctx context.Context, w io.Writer) error {
	if !s.Watch {
		return s.print(w)
	}
	if s.Every <= 0 {
		return badConfig("--every %v: want a positive time", s.Every)
	}
	t := time.NewTicker(s.Every)
	defer t.Stop()
	for {
		var b bytes.Buffer
		if err := s.print(&b); err != nil {
			b.Reset()
			if s.JSON { // scripts get documents only
				_ = json.NewEncoder(&b).Encode(map[string]string{"error": err.Error()}) // which a buffer takes
			} else {
				fmt.Fprintln(&b, err)
			}
		}
		if !s.JSON {
			const clearScreen = "\x1b[H\x1b[2J" // ECMA-48: CUP, ED
			b = *bytes.NewBuffer(append([]byte(clearScreen), b.Bytes()...))
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// print prints the status once. Each time it makes a connection of its own, so that it does not delay a daemon that
// stops.
func (s *statusCmd) print(w io.Writer) error {
	c, err := ual.Dial(ual.Config{Path: s.Socket, Name: "ddkd status"})
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := c.Status()
	switch {
	case err != nil:
		return err
	case s.JSON && s.Watch:
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	case s.JSON:
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, b.String())
		return err
	}
	var st kproxy.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return err
	}
	return printStatus(w, &st)
}

// printStatus prints a status as tables.
func printStatus(w io.Writer, st *kproxy.Status) error {
	stopping := ""
	if st.Stopping {
		stopping = ", stopping"
	}
	fmt.Fprintf(w, "daemon %d%s: %s\n\n", st.PID, stopping, st.Build)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ADAPTER\tDRIVER\tSETTINGS\tPORT\tSTATE\tMTU\tSENT BYTES\tRECEIVED BYTES\tGIDS")
	for _, a := range st.Adapters {
		for _, p := range a.Ports {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", a.GUID, a.Driver,
				Settings(a.Settings), p.Num, p.State,
				p.MTU, bytesText(p.SentBytes), bytesText(p.ReceivedBytes), strings.Join(p.GIDs, " "))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(t, "CLIENT\tPID\tUID\tCOMMAND\tNAME\tOBJECTS\tQUEUES\tMEMORY\tPOSTS\tCOMPLETIONS\tEVENTS\tREJECTED")
	for _, c := range st.Clients {
		fmt.Fprintf(t, "%d\t%d\t%d\t%q\t%q\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", c.ID, c.PID, c.UID, c.Command, c.Name,
			objectsText(&c), share(c.QueueBytes, c.Quota.QueueBytes), share(c.MemoryBytes, c.Quota.MemoryBytes),
			c.Posts, c.Completions, c.Events, c.Rejected)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printServices(w, st)
}

// printServices prints the listeners and connections of the clients.
func printServices(w io.Writer, st *kproxy.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "\nCLIENT\tSERVICES\n"
	for _, c := range st.Clients {
		for _, text := range c.Services {
			fmt.Fprintf(t, "%s%d\t%s\n", header, c.ID, text)
			header = ""
		}
	}
	return t.Flush()
}

// objectsText lists the objects of a client, and the limit of each kind.
func objectsText(c *kproxy.ClientStatus) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(c.Objects)) {
		list = append(list, fmt.Sprintf("%s:%d/%d", strings.ReplaceAll(k, " ", "-"), c.Objects[k], c.Quota.Objects[k]))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

// share is a number of bytes and its limit.
func share(used, limit int64) string { return bytesText(uint64(used)) + "/" + bytesText(uint64(limit)) }

// bytesText is a number of bytes with three digits or more, in binary units.
func bytesText(n uint64) string {
	units := []string{"", "K", "M", "G", "T", "P"}
	for len(units) > 1 && n >= 10<<10 {
		n >>= 10
		units = units[1:]
	}
	return fmt.Sprintf("%d%s", n, units[0])
}
