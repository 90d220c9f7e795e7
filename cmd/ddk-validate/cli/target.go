package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"ciddk/validate"
)

// targetFlags are the flags of run, self and worker that describe the target.
type targetFlags struct {
	Profile string            `help:"Profile: ${profiles}. Default: the widest that the claims allow; self: full."`
	Link    string            `help:"Link of the driver; see 'drivers'. Default: its first one."`
	Through []string          `help:"Layer between certifier and driver: ${layers}." placeholder:"LAYER"`
	Seed    uint64            `default:"1" help:"Seed of all random choices. 0 draws one."`
	Set     map[string]string `help:"Setting of the driver; see 'drivers'." placeholder:"KEY=VALUE"`
	Device  string            `help:"Device of the driver verbs: --set device=NAME." placeholder:"NAME"`
	Timeout *time.Duration    `help:"Time limit of an ordinary case; others scale with it. Default: 10s; self: 5s."`
}

// check returns an error if the flags are not valid. It sets the timeout to the command's default if it is not set.
func (t *targetFlags) check(timeout time.Duration) error {
	if t.Timeout == nil {
		t.Timeout = &timeout
	}
	if t.Device != "" {
		if old, isSet := t.Set["device"]; isSet && old != t.Device {
			return fmt.Errorf("--device %s and --set device=%s: want one of them", t.Device, old)
		}
		if t.Set == nil {
			t.Set = map[string]string{}
		}
		t.Set["device"] = t.Device
	}
	if *t.Timeout < 100*time.Millisecond {
		return fmt.Errorf("--timeout %v: want at least 100ms", *t.Timeout)
	}
	if _, ok := validate.FindProfile(t.Profile); !ok && t.Profile != "" {
		return fmt.Errorf("--profile: no profile %q; valid names are %s", t.Profile, profileNames())
	}
	return nil
}

// maxWorkers limits the worker processes of a run. Drivers choose addresses by the worker's number and have a limited
// number of them.
const maxWorkers = 64

// workersOf returns the number of workers that the flag sets, or the driver's default.
func workersOf(d validate.Driver, flag *int) (int, error) {
	switch {
	case flag == nil:
		return d.DefaultWorkers(), nil
	case *flag < 1:
		return 0, fmt.Errorf("--workers %d: want at least 1", *flag)
	case *flag > maxWorkers:
		return 0, fmt.Errorf("--workers %d: want at most %d", *flag, maxWorkers)
	}
	if err := d.CheckWorkers(*flag); err != nil {
		return 0, fmt.Errorf("--workers: %w", err)
	}
	return *flag, nil
}

func profileNames() string {
	s := ""
	for i, p := range validate.Profiles() {
		if i > 0 {
			s += ", "
		}
		s += p.Name
	}
	return s
}

// setting returns the setting that the flags describe. check must have been called.
func (t targetFlags) setting() validate.Setting {
	return validate.Setting{
		Options: validate.Options{Link: t.Link, Seed: t.Seed, Run: os.Getpid(), Values: t.Set},
		Profile: t.Profile,
		Scale:   float64(*t.Timeout) / float64(validate.DefaultTimeout),
	}
}

// spawn returns a function for validate.Plan.Spawn. It runs this program again as a worker for the driver d, with the
// mutant m if it is not "".
func (a *app) spawn(d string, timeout time.Duration, m string) func(context.Context, validate.Setting) *exec.Cmd {
	return func(ctx context.Context, s validate.Setting) *exec.Cmd {
		args := []string{
			"worker", d, "--profile", s.Profile, "--link", s.Link, "--seed", strconv.FormatUint(s.Seed, 10),
			"--timeout", timeout.String(), "--index", strconv.Itoa(s.Worker), "--run", strconv.Itoa(s.Run),
			"--mutant", m, "--pcap", s.PcapDir,
		}
		if s.PcapAll {
			args = append(args, "--pcap-all")
		}
		for k, v := range s.Values {
			args = append(args, "--set", k+"="+v)
		}
		exe, err := os.Executable()
		if err != nil {
			exe = os.Args[0]
		}
		cmd := exec.CommandContext(ctx, exe, args...)
		cmd.Env = validate.WorkerEnv()
		return cmd
	}
}

// workerCmd is the command that spawn runs.
type workerCmd struct {
	Driver string `arg:""`
	targetFlags
	Index   int
	RunID   int `name:"run"`
	Mutant  string
	Pcap    string
	PcapAll bool
}
