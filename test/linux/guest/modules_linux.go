package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Load loads a module of Config.Loadable with its dependencies. Parameters, such as debug_level=1, are those of the
// module itself.
func (g *Guest) Load(ctx context.Context, module string, parameters ...string) error {
	files, err := g.kernel.order([]string{module})
	if err != nil {
		return err
	}
	args := []string{"agent", "load", strings.Join(parameters, " ")}
	for _, f := range files {
		args = append(args, modulePath(f))
	}
	return g.must(ctx, args...)
}

// Unload unloads modules, in the order given. It fails for a module that is in use.
func (g *Guest) Unload(ctx context.Context, modules ...string) error {
	return g.must(ctx, append([]string{"agent", "unload"}, modules...)...)
}

// Dmesg returns the messages of the guest's kernel.
func (g *Guest) Dmesg(ctx context.Context) (string, error) {
	r, err := g.Run(ctx, "agent", "dmesg")
	if err == nil && r.Code != 0 {
		err = errors.New(r.Stderr)
	}
	return r.Stdout, err
}

// Put writes a text to a file of the guest, such as one of sysfs.
func (g *Guest) Put(ctx context.Context, file, text string) error {
	return g.must(ctx, "agent", "put", file, text)
}

// Mkdir makes a folder of the guest, with its parents.
func (g *Guest) Mkdir(ctx context.Context, dir string) error {
	return g.must(ctx, "agent", "mkdir", dir)
}

// must runs a program. An exit code other than 0 is an error.
func (g *Guest) must(ctx context.Context, args ...string) error {
	r, err := g.Run(ctx, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%v: exit code %d: %s", args, r.Code, r.Stderr)
	}
	return err
}
