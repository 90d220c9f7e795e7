package testenv

import (
	"fmt"
	"runtime"
	"testing"
)

// An Outcome is the result of a tried test.
type Outcome struct {
	Skipped string   // the reason; "" if the test was not skipped
	Errors  []string // messages of failures, in order
}

// Try runs f with a test that records failures and skips instead of reporting them to t. The test passed to f has t's
// context, folders and cleanups. It supports Error, Errorf, Fatal, Fatalf, Fail, FailNow, Skip, Skipf and SkipNow.
func Try(t testing.TB, f func(testing.TB)) Outcome {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // on a goroutine of its own, which FailNow and SkipNow can end
		defer close(done)
		f(r)
	}()
	<-done
	return r.Outcome
}

// A recorder replaces the test. One goroutine uses it.
type recorder struct {
	testing.TB
	Outcome
}

func (r *recorder) Helper() {}

func (r *recorder) Failed() bool  { return len(r.Errors) > 0 }
func (r *recorder) Skipped() bool { return r.Outcome.Skipped != "" }

func (r *recorder) Error(args ...any) { r.Errors = append(r.Errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any) {
	r.Errors = append(r.Errors, fmt.Sprintf(f, args...))
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, args ...any) {
	r.Errorf(f, args...)
	runtime.Goexit()
}

func (r *recorder) Fail() { r.Error("Fail") }

// FailNow ends f. testify has already called Errorf.
func (r *recorder) FailNow() {
	if !r.Failed() {
		r.Error("FailNow")
	}
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.Outcome.Skipped = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(f string, args ...any) { r.Skip(fmt.Sprintf(f, args...)) }

func (r *recorder) SkipNow() { r.Skip("SkipNow") }
