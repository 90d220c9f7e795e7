package verbsmatrix

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ApplicationsPath is the path of the list of applications in the module.
const ApplicationsPath = "test/verbs/testdata/applications.txt"

// An Application is a run of programs of a package.
type Application struct {
	Package, Version string // of Debian, with the version that was tried
	What             string // Markdown
	Test             string // the test that runs it; the rest is empty then

	// The command lines, with placeholders as the file describes them. Without a client, the server is the only
	// program.
	Server, Client string
	Want           string // what the client, or the only program, prints
	IsEndless      bool   // the server does not end by itself
}

// Applications reads the list of a module.
func Applications(root string) ([]*Application, error) {
	f, err := os.Open(filepath.Join(root, filepath.FromSlash(ApplicationsPath)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []*Application
	var of Application
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		a, err := parseApplication(line, &of)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", ApplicationsPath, number, err)
		}
		if a != nil {
			list = append(list, a)
		}
	}
	return list, lines.Err()
}

// parseApplication parses a line. of has the package, which a line that begins with @ sets.
func parseApplication(line string, of *Application) (*Application, error) {
	if rest, ok := strings.CutPrefix(line, "@"); ok {
		name, version, ok := strings.Cut(rest, " ")
		if !ok {
			return nil, errors.New("a package without a version")
		}
		*of = Application{Package: name, Version: version}
		return nil, nil
	}
	if of.Package == "" {
		return nil, errors.New("a run without a package")
	}
	a := *of
	f := strings.Split(line, "; ") // names such as verbs;ofi_rxm are no separators
	switch {
	case len(f) == 2 && strings.HasPrefix(f[1], "Test"):
		a.What, a.Test = f[0], f[1]
	case len(f) == 4, len(f) == 5 && f[4] == "endless":
		a.What, a.Server, a.Client = f[0], f[1], f[2]
		a.Want, a.IsEndless = f[3], len(f) == 5
	default:
		return nil, errors.New("want a test, or server, client, a text, and optionally endless, after the description")
	}
	return &a, nil
}
