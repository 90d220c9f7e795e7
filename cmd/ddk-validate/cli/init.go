package cli

import (
	"fmt"
	"path/filepath"
)

// Scaffold describes a new module for the command init.
type Scaffold struct {
	Dir    string `arg:"" help:"Folder to write; new or empty."`
	Module string `required:"" help:"Path of the new module, such as example.com/acme/hca." placeholder:"PATH"`
	Name   string `help:"Package name; from the last element of the path, if left out."`
	Kit    string `help:"Folder of the kit's source; where this program was built from, if left out." placeholder:"DIR"`
}

type initCmd struct{ Scaffold }

// Run executes the command.
func (i *initCmd) Run(a *app) error {
	name, err := a.Init(i.Scaffold)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	fmt.Fprintf(a.Stdout, `Package %s of module %s is in %s: a driver that passes the certifier over a device in software. Next:

    cd %s
    go test ./...
    go run ./cmd/validate run --expect testdata/expectations.json

README.md there has the steps after that.
`, name, i.Module, filepath.Clean(i.Dir), i.Dir)
	return nil
}
