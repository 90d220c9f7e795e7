// Package verbsmatrix reads the lists of programs that test/verbs runs: programs of rdma-core and perftest in several
// situations, and applications. The tests and the tables of the documentation are made of them.
package verbsmatrix

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Path is the path of the list in the module.
const Path = "test/verbs/testdata/matrix.txt"

// The parts of the names of situations.
const (
	One   = "one"   // server and client use one daemon
	Two   = "two"   // server and client use two daemons
	Linux = "linux" // one of them uses Linux's Soft-RoCE, in both roles
	Load  = "load"  // other programs of the daemons write without end
	Loss  = "loss"  // the link impairs packets
)

// A Situation is where programs run, and a condition: Load, Loss, or none.
type Situation struct{ Where, Condition string }

// Situations are all situations.
var Situations = []Situation{{One, ""}, {One, Load}, {Two, ""}, {Two, Load}, {Two, Loss}, {Linux, ""}, {Linux, Loss}}

// String returns where, and the condition.
func (s Situation) String() string {
	if s.Condition == "" {
		return s.Where
	}
	return s.Where + "," + s.Condition
}

// A Program is a line of the list.
type Program struct {
	Server, Client string // the command lines; Client is empty if it is Server with the address
	Want           string // what the client prints
	IsEndless      bool   // the server does not end by itself

	left map[string]string // reasons by situation, by place or by condition
}

// Left returns the reason why the program does not run in a situation, "" if it does.
func (p *Program) Left(s Situation) string {
	keys := []string{s.String(), s.Where, s.Condition}
	if s.Where == One { // it has no link, whose packets a load could delay or lose
		keys = keys[:2]
	}
	for _, key := range keys {
		if reason := p.left[key]; reason != "" {
			return reason
		}
	}
	return ""
}

// Lines returns the command lines for an address of the server.
func (p *Program) Lines(address string) (server, client string) {
	server, client = p.Server, p.Client
	if client == "" {
		client = server + " " + address
	}
	return strings.ReplaceAll(server, "{a}", address), strings.ReplaceAll(client, "{a}", address)
}

// A Matrix is the list.
type Matrix struct {
	Programs []*Program
	Reasons  map[string]string // texts by name
	Names    []string          // of the reasons, in order
}

// Read reads the list of a module.
func Read(root string) (*Matrix, error) {
	f, err := os.Open(filepath.Join(root, filepath.FromSlash(Path)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &Matrix{Reasons: map[string]string{}}
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		if err := m.add(strings.TrimSpace(lines.Text())); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", Path, number, err)
		}
	}
	return m, lines.Err()
}

// add adds a line.
func (m *Matrix) add(line string) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	if rest, ok := strings.CutPrefix(line, "!"); ok {
		name, text, ok := strings.Cut(rest, ": ")
		if !ok {
			return errors.New("a reason without a text")
		}
		m.Reasons[name] = text
		m.Names = append(m.Names, name)
		return nil
	}
	const fields = 5
	f := strings.Split(line, ";")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	if len(f) < 3 || len(f) > fields || f[0] == "" || f[2] == "" {
		return fmt.Errorf("want 3 to %d fields", fields)
	}
	f = append(f, make([]string, fields-len(f))...)
	p := &Program{Server: f[0], Client: f[1], Want: f[2], IsEndless: f[4] == "endless", left: map[string]string{}}
	for item := range strings.FieldsSeq(f[3]) {
		key, reason, _ := strings.Cut(item, "=")
		if m.Reasons[reason] == "" {
			return fmt.Errorf("no reason %q", reason)
		}
		p.left[key] = reason
	}
	m.Programs = append(m.Programs, p)
	return nil
}
