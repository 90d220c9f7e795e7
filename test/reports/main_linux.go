package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ciddk/internal/modroot"
)

// certifier is the program that judges an adapter by libibverbs.
const certifier = "ddk-validate-verbs"

func main() {
	cases := flag.String("case", "", "only cases whose id matches; the report is not written then")
	limit := flag.Duration("limit", 90*time.Minute, "time limit of one report")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *cases, *limit, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "reports:", err)
		os.Exit(1)
	}
}

// run judges the subjects that are named, or all.
func run(ctx context.Context, cases string, limit time.Duration, names []string) error {
	root, err := modroot.Find()
	if err != nil {
		return err
	}
	all := slices.Sorted(maps.Keys(subjects))
	if len(names) == 0 {
		names = all
	}
	for _, n := range names {
		if _, ok := subjects[n]; !ok {
			return fmt.Errorf("no subject %s; there are %s", n, strings.Join(all, ", "))
		}
	}
	dir, err := os.MkdirTemp("", "ciddk-reports-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := exec.CommandContext(ctx, "go", "build", "-o", dir, "./cmd/"+certifier, "./cmd/ddkrun")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the certifier: %w: %s", err, out)
	}
	var errs []error
	for _, n := range names {
		s := subjects[n]
		one, cancel := context.WithTimeout(ctx, limit)
		var r *result
		if s.space != "" {
			r, err = s.judgeSpace(one, dir, cases)
		} else {
			r, err = s.judge(one, dir, cases)
		}
		cancel()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", n, err))
		case cases != "":
			fmt.Print(r.log)
		default:
			errs = append(errs, r.write(filepath.Join(root, "docs", "reports", n), &s))
		}
	}
	return errors.Join(errs...)
}

// A result is what the certifier left.
type result struct {
	log, junit string
	report     []byte // JSON
	kernel     string
	library    string // version of rdma-core
	took       time.Duration
}

// product is the file that says what was judged.
type product struct {
	Name     string `json:"name"`
	Kernel   string `json:"kernel"`
	Library  string `json:"rdma_core"`
	Date     string `json:"date"`
	Kit      string `json:"kit_commit"`
	Duration string `json:"duration"`
	Adapter  any    `json:"adapter"`
	Verdict  any    `json:"verdict"`
}

// write writes the folder of a report.
func (r *result) write(dir string, s *subject) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var rep struct {
		Identity any `json:"identity"`
		Verdict  any `json:"verdict"`
	}
	if err := json.Unmarshal(r.report, &rep); err != nil {
		return fmt.Errorf("the report of the certifier: %w", err)
	}
	commit, _ := exec.Command("git", "-C", dir, "rev-parse", "--short", "HEAD").Output() // none outside of a clone
	p := product{s.title, r.kernel, r.library, time.Now().Format(time.DateOnly),
		cmp.Or(strings.TrimSpace(string(commit)), "unknown"), r.took.Round(time.Second).String(), rep.Identity,
		rep.Verdict}
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"product.json": append(b, '\n'), "run.log": []byte(remarkable(r.log)),
		junitName: compressed(r.junit)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	missing, err := unargued(dir)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s does not argue %s", filepath.Join(dir, findings), strings.Join(missing, ", "))
	}
	return err
}
