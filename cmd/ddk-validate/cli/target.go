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

// targetFlags say what is opened and how; run, self and worker share them.
type targetFlags struct {
	Profile string            `help:"Profile to certify: ${profiles}. If left out, the widest that the driver's claims allow; for self, full."`
	Link    string            `help:"Link to open the driver on; see drivers. The driver's first, if left out."`
	Seed    uint64            `default:"1" help:"Of everything left to chance. 0 draws one."`
	Set     map[string]string `help:"KEY=VALUE for the driver; see drivers." placeholder:"KEY=VALUE"`
	Timeout *time.Duration    `help:"Time of an ordinary case, 10s if left out, for self 5s; cases with a time of their own keep their proportion."`
}

// check refuses what makes no sense, and fills in the time that is usual for the command.
func (f *targetFlags) check(usual time.Duration) error {
	if f.Timeout == nil {
		f.Timeout = &usual
	}
	if *f.Timeout < 100*time.Millisecond {
		return fmt.Errorf("--timeout %v: less than 100ms is too short to judge anything", *f.Timeout)
	}
	if _, ok := validate.FindProfile(f.Profile); !ok && f.Profile != "" {
		names := profileNames()
		return fmt.Errorf("--profile: no profile %q; there are %s", f.Profile, names)
	}
	return nil
}

// maxWorkers bounds the processes of a run. Drivers choose addresses by the worker's number, and have so many.
const maxWorkers = 64

// workersOf is the number of workers asked for, or the driver's usual one.
func workersOf(d validate.Driver, asked *int) (int, error) {
	switch {
	case asked == nil:
		return d.DefaultWorkers(), nil
	case *asked < 1:
		return 0, fmt.Errorf("--workers %d: want at least 1", *asked)
	case *asked > maxWorkers:
		return 0, fmt.Errorf("--workers %d: want at most %d", *asked, maxWorkers)
	}
	if err := d.CheckWorkers(*asked); err != nil {
		return 0, fmt.Errorf("--workers: %w", err)
	}
	return *asked, nil
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

// setting is what the flags say, once check has filled them in.
func (f targetFlags) setting() validate.Setting {
	return validate.Setting{
		Options: validate.Options{Link: f.Link, Seed: f.Seed, Run: os.Getpid(), Values: f.Set},
		Profile: f.Profile,
		Scale:   float64(*f.Timeout) / float64(validate.DefaultTimeout),
	}
}

// spawn returns the command that runs this program again as a worker.
func (a *app) spawn(driver string, timeout time.Duration, mutant string) func(context.Context, validate.Setting) *exec.Cmd {
	return func(ctx context.Context, s validate.Setting) *exec.Cmd {
		args := []string{"worker", driver, "--profile", s.Profile, "--link", s.Link, "--seed", strconv.FormatUint(s.Seed, 10),
			"--timeout", timeout.String(), "--index", strconv.Itoa(s.Worker), "--run", strconv.Itoa(s.Run), "--mutant", mutant, "--pcap", s.PcapDir}
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

// workerCmd is the other end of spawn.
type workerCmd struct {
	Driver string `arg:""`
	targetFlags
	Index   int
	RunID   int `name:"run"`
	Mutant  string
	Pcap    string
	PcapAll bool
}
