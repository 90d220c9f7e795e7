package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"ciddk/kproxy"
	"ciddk/ual"
)

type statusCmd struct {
	Socket string `help:"Socket of the daemon." placeholder:"PATH"`
	JSON   bool   `name:"json" help:"Print JSON, for scripts."`
}

// Run prints the status of a running daemon.
func (s *statusCmd) Run(w io.Writer) error {
	c, err := ual.Dial(ual.Config{Path: s.Socket, Name: "ddkd status"})
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := c.Status()
	if err != nil {
		return err
	}
	if s.JSON {
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
	fmt.Fprintf(w, "daemon %d\n\n", st.PID)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ADAPTER\tPORT\tSTATE\tMTU\tGIDS")
	for _, a := range st.Adapters {
		for _, p := range a.Ports {
			fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\n", a.GUID, p.Num, p.State, p.MTU, strings.Join(p.GIDs, " "))
		}
	}
	fmt.Fprintln(t, "\nCLIENT\tPID\tUID\tNAME\tOBJECTS\tMEMORY\tPOSTS\tCOMPLETIONS\tEVENTS\tREJECTED")
	for _, c := range st.Clients {
		var objects []string
		for _, k := range slices.Sorted(maps.Keys(c.Objects)) {
			objects = append(objects, fmt.Sprintf("%s:%d", strings.ReplaceAll(k, " ", "-"), c.Objects[k]))
		}
		list := strings.Join(objects, " ")
		if list == "" {
			list = "none"
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%q\t%s\t%d\t%d\t%d\t%d\t%d\n", c.ID, c.PID, c.UID, c.Name, list,
			c.MemoryBytes, c.Posts,
			c.Completions, c.Events, c.Rejected)
	}
	return t.Flush()
}
