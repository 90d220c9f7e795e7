package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Diagnose registers a function that describes the state of one of the case's objects, in one or more lines with the
// object's name. If the case fails, f is called after the case's body and before cleanup. Package kit registers
// functions for QPs and CQs.
func (t *T) Diagnose(f func() []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.diagnoses = append(t.diagnoses, f)
}

// Limits of a diagnosis. A case may have created a thousand QPs, and a faulty driver may not return from a query.
const (
	maxDiagnoses  = 16
	diagnosisTime = time.Second
)

// diagnose adds the states of the case's objects to the result of a case that has failed.
func (t *T) diagnose() {
	t.mu.Lock()
	needed := len(t.res.Failures) > 0 || t.unclear
	list := slices.Clone(t.diagnoses)
	t.mu.Unlock()
	if !needed || len(list) == 0 {
		return
	}
	left := len(list) - maxDiagnoses
	list = list[:min(len(list), maxDiagnoses)]
	lines := make(chan []string, len(list))
	go func() {
		defer close(lines)
		for _, f := range list {
			lines <- described(f)
		}
	}()
	timer := time.NewTimer(diagnosisTime)
	defer timer.Stop()
	for {
		select {
		case l, ok := <-lines:
			if ok {
				t.res.State = append(t.res.State, l...)
				continue
			}
			if left > 0 {
				t.res.State = append(t.res.State, fmt.Sprintf("and %d more objects", left))
			}
		case <-timer.C:
			t.res.State = append(t.res.State, fmt.Sprintf("the driver did not answer within %v", diagnosisTime))
		}
		return
	}
}

// diagnoseCounters registers a function that describes what Target.Counters count from now on.
func (t *T) diagnoseCounters() {
	count := t.target.Counters
	if count == nil {
		return
	}
	var before []map[string]uint64
	described(func() []string { before = count(); return nil }) // if it panics, it does so again after a failure
	t.Diagnose(func() (lines []string) {
		for i, now := range count() {
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(now)) {
				n := now[name]
				if i < len(before) {
					n -= before[i][name]
				}
				if n != 0 {
					parts = append(parts, fmt.Sprintf("%s %d", name, n))
				}
			}
			if len(parts) > 0 {
				lines = append(lines, fmt.Sprintf("HCA %d: counted: %s", i+1, strings.Join(parts, ", ")))
			}
		}
		return lines
	})
}

// described calls f. It returns a panic of the driver as a line.
func described(f func() []string) (lines []string) {
	defer func() {
		if p := recover(); p != nil {
			lines = append(lines, fmt.Sprintf("panic: %v", p))
		}
	}()
	return f()
}
