package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Elsewhere is a driver that is linked into another program with the same commands, such as one that needs the C
// library. The commands run and explore start that program.
type Elsewhere struct {
	Driver      string // name of the driver
	Description string // one line
	Program     string // file name of the program: beside this one, or on the path
	Build       string // how to build or run it, for the error if it is not found
}

// find returns the path of the program.
func (e Elsewhere) find() (string, error) {
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), e.Program)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	path, err := exec.LookPath(e.Program)
	if err != nil {
		return "", fmt.Errorf("driver %s is in a program of its own, %s, which is neither beside this one nor on the "+
			"path: %s", e.Driver, e.Program, e.Build)
	}
	return path, nil
}

// elsewhere returns the driver in another program that a command names.
func (a *app) elsewhere(c *commands, command string) (Elsewhere, bool) {
	command, _, _ = strings.Cut(command, " ")
	driver, has := map[string]string{"run": c.Run.Driver, "explore": c.Explore.Driver}[command]
	if !has {
		return Elsewhere{}, false
	}
	for _, e := range a.Elsewhere {
		if e.Driver == driver {
			return e, true
		}
	}
	return Elsewhere{}, false
}

// run replaces this program by the other one, with the same arguments.
func (e Elsewhere) run(args []string) error {
	path, err := e.find()
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w; it is linked with glibc, so a system with another C library runs it in a container "+
		"with Debian or a relative of it", path, replace(path, append([]string{e.Program}, args...)))
}
