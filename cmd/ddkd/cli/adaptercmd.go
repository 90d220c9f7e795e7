package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"ciddk/ual"
)

// adapterCmd changes the adapters of a running daemon.
type adapterCmd struct {
	Add    adapterAddCmd    `cmd:"" help:"Add an adapter to a running daemon."`
	Remove adapterRemoveCmd `cmd:"" help:"Remove an adapter from a running daemon, also while clients use it."`
	List   adapterListCmd   `cmd:"" help:"Print the adapters of a running daemon."`
}

type adapterAddCmd struct {
	Socket   string `help:"Socket of the daemon." placeholder:"PATH"`
	Settings string `arg:"" help:"The adapter, as for serve --adapter." placeholder:"KEY=VALUE,…"`
}

type adapterRemoveCmd struct {
	Socket  string `help:"Socket of the daemon." placeholder:"PATH"`
	Adapter string `arg:"" help:"GUID of the adapter, or the value of one of its keys, such as its address."`
}

type adapterListCmd struct {
	Socket string `help:"Socket of the daemon." placeholder:"PATH"`
	JSON   bool   `name:"json" help:"Print JSON, for scripts."`
}

// Run adds an adapter and prints its GUID.
func (a *adapterAddCmd) Run(w io.Writer) error {
	s, err := parseAdapter(a.Settings)
	if err != nil {
		return err
	}
	var info adapterInfo
	if err := operate(a.Socket, opAddAdapter, s, &info); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, info.GUID)
	return err
}

// Run removes an adapter and prints its GUID.
func (a *adapterRemoveCmd) Run(w io.Writer) error {
	var info adapterInfo
	if err := operate(a.Socket, opRemoveAdapter, a.Adapter, &info); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, info.GUID)
	return err
}

// Run prints the adapters.
func (a *adapterListCmd) Run(w io.Writer) error {
	list := []adapterInfo{}
	if err := operate(a.Socket, opListAdapters, nil, &list); err != nil {
		return err
	}
	if a.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ADAPTER\tDRIVER\tSETTINGS")
	for _, x := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\n", x.GUID, x.Driver, x.Settings)
	}
	return t.Flush()
}

// String returns the settings as the command line takes them.
func (s Settings) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		pairs = append(pairs, key+"="+s[key])
	}
	return strings.Join(pairs, ",")
}

// operate executes an operation of the daemon and fills reply.
func operate(socket, operation string, request, reply any) error {
	c, err := ual.Dial(ual.Config{Path: socket, Name: "ddkd " + operation})
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if text, err = c.Control(operation, text); err != nil {
		return err
	}
	return json.Unmarshal(text, reply)
}
