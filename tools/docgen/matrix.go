package main

import (
	"fmt"
	"strings"

	"ciddk/internal/verbsmatrix"
)

// situationTitles are the titles of the columns of the matrix.
var situationTitles = map[string]string{"one": "one daemon", "one,load": "one, under load", "two": "two daemons",
	"two,load": "two, under load", "two,loss": "two, 1% impaired",
	"linux": "Soft-RoCE", "linux,loss": "Soft-RoCE, 1% impaired"}

// matrixTable returns the table of the programs that test/verbs runs in several situations.
func matrixTable(root string) (string, error) {
	m, err := verbsmatrix.Read(root)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| program |")
	for _, s := range verbsmatrix.Situations {
		title := situationTitles[s.String()]
		if title == "" {
			return "", fmt.Errorf("the situation %s has no title", s)
		}
		fmt.Fprintf(&out, " %s |", title)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(verbsmatrix.Situations)) + "\n")
	for _, p := range m.Programs {
		fmt.Fprintf(&out, "| `%s` |", programOf(p))
		for _, s := range verbsmatrix.Situations {
			cell := p.Left(s)
			if cell == "" {
				cell = "yes"
			}
			fmt.Fprintf(&out, " %s |", cell)
		}
		out.WriteString("\n")
	}
	out.WriteString("\n")
	for _, name := range m.Names {
		fmt.Fprintf(&out, "* %s: %s.\n", name, m.Reasons[name])
	}
	return out.String(), nil
}

// programOf returns what a row of the matrix shows: the client's command line, or the one of both sides.
func programOf(p *verbsmatrix.Program) string {
	if p.Client == "" {
		return p.Server
	}
	return strings.TrimSpace(strings.ReplaceAll(p.Client, "{a}", "HOST"))
}

// applicationTable returns the table of the applications that test/verbs runs.
func applicationTable(root string) (string, error) {
	list, err := verbsmatrix.Applications(root)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| package of Debian 12 | what runs | with |\n|---|---|---|\n")
	last := ""
	for _, a := range list {
		name := ""
		if a.Package != last {
			name, last = "`"+a.Package+"` "+a.Version, a.Package
		}
		with := "`TestApplications`"
		if a.Test != "" {
			with = "`" + a.Test + "`"
		} else if line := applicationLine(a); line != "" {
			with = "`" + line + "`"
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", name, a.What, with)
	}
	return out.String(), nil
}

// placeholders of the list of applications that the table shows otherwise.
var placeholders = strings.NewReplacer("{a}", "HOST", "{p}", "PORT", "{ucx} ", "", "{rsocket}", "librspreload.so",
	"{ompi}", "mpirun -np 3", "{cc ", "", "{mpicc.openmpi ", "", "{mpicc.mpich ", "", "{file ", "", " -pthread}", "",
	" -luct -lucs}", "", " -lrpma}", "", ".c -d", " -d", "/usr/share/doc/libucx-dev/examples/", "", ".py}", ".py",
	" -pthread", "", "env ", "")

// applicationLine returns what a row shows: the client's command line, or the only one.
func applicationLine(a *verbsmatrix.Application) string {
	if a.Client == "" {
		return placeholders.Replace(a.Server)
	}
	return placeholders.Replace(a.Client)
}

// spacesTable returns the table of the user spaces in which programs run.
func spacesTable(root string) (string, error) {
	rows, err := verbsmatrix.ReadSpaces(root)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| user space | rdma-core | glibc | perftest | pyverbs, preload | pyverbs, seccomp | programs, " +
		"preload | programs, seccomp |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(r, " | "))
	}
	return out.String(), nil
}
