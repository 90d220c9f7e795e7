package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// fullProfile is the profile of the command self, and of a run if the claims of its driver are not known.
const fullProfile = "full"

// options are the capabilities that profile claimed tests beyond minimal.
const options = ci.CapUC | ci.CapUD | ci.CapMulticast | ci.CapSpecialQP | ci.CapLocalMAD | ci.CapSRQ |
	ci.CapMW1 | ci.CapMW2 | ci.CapFMR | ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR |
	ci.CapSendInvalidate | ci.CapResizeCQ | ci.CapModeration | ci.CapPeek | ci.CapNotifyAfter | ci.CapAPM

// profileFor returns the name of the widest profile that the claims of an adapter allow. A layer in front of the driver
// withholds some of its capabilities.
func profileFor(a *ci.CAAttr, withheld ci.Caps) string {
	caps := a.Caps | withheld
	p, _ := validate.FindProfile(fullProfile)
	switch {
	case caps.Has(p.Demands) && a.Atomicity >= p.Atomics:
		return fullProfile
	case a.Caps&options != 0 || a.Atomicity != 0:
		return "claimed"
	}
	return "minimal"
}

// profileTime limits the time for opening a driver to read its claims.
const profileTime = 30 * time.Second

// profileMark begins the line with the result of the command profile. The driver may print other lines.
const profileMark = "ddk-validate-profile="

// suggestProfile opens the driver in another process and returns the profile that its claims allow. It returns "" if
// the driver cannot be opened or queried, which the run then reports.
func (a *app) suggestProfile(d validate.Driver, f *targetFlags) string {
	ctx, cancel := context.WithTimeout(a.ctx, profileTime)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	args := []string{"profile", d.Name, "--link", f.Link}
	for k, v := range f.Set {
		args = append(args, "--set", k+"="+v)
	}
	c := exec.CommandContext(ctx, exe, args...)
	c.Env = validate.WorkerEnv()
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(string(line)), profileMark); ok {
			if _, ok := validate.FindProfile(name); ok {
				return name
			}
		}
	}
	return ""
}

// profileCmd is the command that suggestProfile runs.
type profileCmd struct {
	Driver string `arg:""`
	targetFlags
}

// Run executes the command.
func (p *profileCmd) Run(a *app) error {
	d, err := a.driver(p.Driver, p.Through)
	if err != nil {
		return err
	}
	link, err := d.LinkOr(p.Link)
	if err != nil {
		return err
	}
	t, err := d.Open(a.ctx, validate.Options{Link: link, Seed: 1, Run: os.Getpid(), Values: p.Set})
	if err != nil {
		return err
	}
	name, err := targetProfile(t)
	if t.Close != nil {
		err = errors.Join(err, t.Close(a.ctx))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "\n%s%s\n", profileMark, name)
	return nil
}

// targetProfile returns the profile that the claims of the first adapter allow.
func targetProfile(t *validate.Target) (string, error) {
	if len(t.HCAs) == 0 {
		return "", errors.New("the target has no adapter")
	}
	h := t.HCAs[0]
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	if err != nil {
		return "", err
	}
	attr, err := ca.Query()
	if err == nil && attr == nil {
		err = errors.New("CA.Query returned neither attributes nor an error")
	}
	name := ""
	if err == nil {
		name = profileFor(attr, t.Withheld)
	}
	return name, errors.Join(err, ca.Destroy())
}
