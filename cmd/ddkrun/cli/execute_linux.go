package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/seccomp"
)

// errProgram is wrapped by errors of the program that was to be started.
var errProgram = errors.New("the program cannot be started")

// execute runs a program, and returns its exit status. With carrierPreload, the program replaces this process, unless
// that is the first of a PID namespace.
func execute(o options, args []string) (int, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errProgram, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return 0, err
	}
	d, err := findDaemon(o.socket, o.idle, o.wait)
	if err != nil {
		return 0, err
	}
	if o.waitPort != 0 {
		if err := awaitPort(d, o.waitPort, cmp.Or(o.wait, defaultWait)); err != nil {
			return 0, err
		}
	}
	c, err := choose(o, path)
	if err != nil {
		return 0, err
	}
	root, err := materialize(d.tree)
	if err != nil {
		return 0, err
	}
	if c.carrier == carrierSeccomp && o.share == shareAlways {
		return 0, fmt.Errorf("--share-memory=%s needs --carrier %s: %s", shareAlways, carrierPreload, c.reason)
	}
	if c.carrier == carrierSeccomp {
		library := "" // the supervisor has dynamic programs preload it
		if kindOf(path) == kindMusl {
			library = c.library // musl reads the environment only
		}
		status, err := seccomp.Run(seccomp.Config{Socket: d.socket, Root: root, Daemon: d.pid, Preload: c.library,
			Path: path, Args: args, Env: withStock(preloading(os.Environ(), library), o.isStock)})
		if errors.Is(err, seccomp.ErrUnavailable) {
			err = fmt.Errorf("no carrier works: %s; %w", c.reason, err)
		}
		return status, err
	}
	env := withStock(environment(os.Environ(), c.library, d.socket, root, o.share), o.isStock)
	if os.Getpid() == 1 {
		return runAsInit(path, args, env)
	}
	return 0, fmt.Errorf("%w: %s: %w", errProgram, path, syscall.Exec(path, args, env))
}

// The environment of programs. The library reads it.
const (
	envSocket  = "DDKRUN_SOCKET"
	envRoot    = "DDKRUN_ROOT"
	envPreload = "LD_PRELOAD"
)

// AddressSanitizer ends a program in which a preloaded library precedes its own, unless an option permits it. The
// preloaded library calls the functions that follow it, which are then those of the sanitizer.
const (
	envSanitizer  = "ASAN_OPTIONS"
	anyOrder      = seccomp.AnyOrder
	anyOrderBegin = "verify_asan_link_order="
)

// environment returns env with what the library needs.
func environment(env []string, library, socket, root, share string) []string {
	env = slices.DeleteFunc(preloading(env, library), func(v string) bool {
		key, _, _ := strings.Cut(v, "=")
		return key == envSocket || key == envRoot || key == envShare
	})
	return append(env, envSocket+"="+socket, envRoot+"="+root, envShare+"="+share)
}

// withStock returns env with, or without, what keeps the library from working around faults.
func withStock(env []string, isStock bool) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, envStock+"=") })
	if isStock {
		env = append(env, envStock+"=1")
	}
	return env
}

// preloading returns env with a library that is preloaded, unless it is "". Other libraries come after it.
func preloading(env []string, library string) []string {
	var preload []string
	if library != "" {
		preload = append(preload, library)
	}
	sanitizer := anyOrder
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		key, value, _ := strings.Cut(v, "=")
		if key == envPreload {
			for _, p := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
				if !slices.Contains(preload, p) {
					preload = append(preload, p)
				}
			}
		}
		if key == envSanitizer && strings.Contains(value, anyOrderBegin) {
			sanitizer = value
		} else if key == envSanitizer && value != "" {
			sanitizer = value + ":" + anyOrder
		}
		return key == envPreload || key == envSanitizer
	})
	if len(preload) > 0 {
		env = append(env, envPreload+"="+strings.Join(preload, ":"))
	}
	return append(env, envSanitizer+"="+sanitizer)
}

// explainTo prints what a program would find, and its carrier. Without arguments, it is any program.
func explainTo(w io.Writer, o options, args []string) error {
	path := ""
	var err error
	if len(args) > 0 {
		if path, err = exec.LookPath(args[0]); err != nil {
			return fmt.Errorf("%w: %w", errProgram, err)
		}
	}
	c, noCarrier := choose(o, path)
	isShared := noCarrier == nil && c.carrier == carrierPreload && o.share != shareNever
	d, err := findDaemon(o.socket, -1, o.wait)
	switch {
	case errors.Is(err, errNoDaemon):
		fmt.Fprintf(w,
			"daemon:   none is running; ddkrun would start one for this user, at %s, with an adapter at %s\n",
			filepath.Join(runtimeDir(), socketName), defaultAddress)
	case err != nil:
		return err
	default:
		fmt.Fprintf(w, "daemon:   %s, process %d: %s\n", d.socket, d.pid, d.build)
		explainDevices(w, d.tree)
		explainMemory(w, d, isShared)
	}
	explainSharing(w, c, o.share)
	switch {
	case noCarrier != nil:
		fmt.Fprintf(w, "carrier:  none: %v\n", noCarrier)
	case c.carrier == carrierPreload:
		fmt.Fprintf(w, "carrier:  preload (%s)\n", c.library)
	default:
		fmt.Fprintf(w, "carrier:  seccomp (%s)\n", c.reason)
		if err := seccomp.Check(); err != nil {
			fmt.Fprintf(w, "          %v\n", err)
		}
	}
	explainFaults(w, whyStock(o, c))
	return nil
}

// whyStock returns why no fault of the user library is worked around, "" if they are.
func whyStock(o options, c choice) string {
	switch {
	case o.isStock:
		return "--no-workarounds"
	case c.missing != nil:
		return c.missing.Error()
	}
	return ""
}

// explainDevices prints the devices of a tree.
func explainDevices(w io.Writer, tree []devices.Entry) {
	number := 0
	for _, e := range tree {
		_, rest, _ := strings.Cut(e.Path, "/infiniband_verbs/")
		if file, ok := strings.CutSuffix(rest, "/ibdev"); ok {
			number++
			name := strings.TrimSpace(string(e.Data))
			fmt.Fprintf(w, "device:   %s, /dev/infiniband/%s\n", name, file)
			explainGIDs(w, tree, name)
		}
	}
	if number == 0 {
		fmt.Fprintln(w, "device:   none: the daemon has no adapter that works with a user library of rdma-core")
	}
}

func explainGIDs(w io.Writer, tree []devices.Entry, device string) {
	for _, e := range tree {
		_, rest, ok := strings.Cut(e.Path, "/infiniband/"+device+"/ports/")
		port, index, found := strings.Cut(rest, "/gids/")
		if ok && found {
			fmt.Fprintf(w, "          port %s, GID %s: %s\n", port, index, strings.TrimSpace(string(e.Data)))
		}
	}
}

// explainSharing prints which memory that a program registers is shared.
func explainSharing(w io.Writer, c choice, share string) {
	const pages = "whole pages of private memory that a program with one thread registers"
	text := map[string]string{shareAlways: pages, shareNever: "nothing",
		shareAuto: pages + ", up to 64 MiB, and where it does not notice"}[share]
	switch {
	case c.carrier == carrierSeccomp && share == shareAuto:
		text = "nothing, because only the carrier " + carrierPreload + " can share"
	case c.carrier == carrierSeccomp && share == shareAlways:
		text = "refused, because only the carrier " + carrierPreload + " can share"
	}
	fmt.Fprintf(w, "shared:   %s (--share-memory=%s)\n", text, share)
}

// explainMemory prints how the daemon gets at memory that a program registers.
func explainMemory(w io.Writer, d *daemon, isShared bool) {
	whose := "own" // a daemon that does not say it has the default
	for _, e := range d.tree {
		if e.Path == devices.CopyMemory {
			whose = strings.TrimSpace(string(e.Data))
		}
	}
	uid := ownerOf(d.pid)
	fmt.Fprintf(w, "memory:   %s (copy-memory %s)\n", memoryFor(whose, os.Getuid(), uid, isShared), whose)
}

// unknownUser is the user of a daemon in another PID namespace.
const unknownUser = -1

// ownerOf returns the user of a process.
func ownerOf(pid int) int {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil || pid <= 0 {
		return unknownUser
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return unknownUser
}

// memoryFor returns what a program of a user gets from a daemon, whose user may be unknownUser.
func memoryFor(whose string, user, daemon int, isShared bool) string {
	rest, only := "memory", "none, unless it is shared (--share-memory, carrier preload)"
	if isShared {
		rest, only = "memory that is not shared", "only memory that is shared"
	}
	mayBeCopied := whose == "all" || whose == "own" && (user == 0 || user == daemon)
	switch {
	case whose == "own" && daemon == unknownUser && user != 0:
		return fmt.Sprintf("the daemon copies from and to %s if it runs as this user, else: %s", rest, only)
	case !mayBeCopied && whose == "own":
		return fmt.Sprintf("%s: the daemon runs as user %d, and this is user %d (start ddkd with --copy-memory all, "+
			"or as this user)", only, daemon, user)
	case !mayBeCopied:
		return only + " (start ddkd with --copy-memory own or all)"
	case daemon == user || daemon == 0:
		return "the daemon copies from and to " + rest
	}
	return "the program copies from and to " + rest + " for the daemon, which is of another user"
}
