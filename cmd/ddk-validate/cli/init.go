package cli

import (
	"fmt"
	"os"
	"path/filepath"
)

// Scaffold describes a new module for the command init.
type Scaffold struct {
	Dir    string   `arg:"" help:"Folder to write to. It must be empty or not exist."`
	Module string   `required:"" help:"Path of the new module, such as example.com/acme/hca." placeholder:"PATH"`
	Name   string   `help:"Package name. The default is made from the last element of the module path."`
	With   []string `help:"Capabilities beyond reliable connections: ud, srq, mw, sma, user, or all." placeholder:"NAME,…"`
	Kit    string   `help:"Folder of the kit's source. The default is where this program was built." placeholder:"DIR"`
}

type initCmd struct{ Scaffold }

// Run executes the command.
func (i *initCmd) Run(a *app) error {
	name, err := a.Init(i.Scaffold)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	tidy := ""
	if _, err := os.Stat(filepath.Join(i.Dir, "go.sum")); err != nil {
		tidy = "    go mod tidy\n" // the kit is a published version
	}
	fmt.Fprintf(a.Stdout, `Package %s of module %s is in %s.
It is a driver for a device in software that passes the certifier. Next:

    cd %s
%s    go test ./...
    go run ./cmd/validate run --expect testdata/expectations.json

The file README.md there describes the steps after that.
`, name, i.Module, filepath.Clean(i.Dir), i.Dir, tidy)
	return nil
}
