package validate

import (
	"fmt"
	"slices"
	"time"
)

// Diagnose registers f to describe, should the case fail, in what state an object of the case is: a line or more, each with the object's
// name. It is called when the case's body is over, before cleanup, with what the driver says then; kit does so for QPs and CQs.
func (t *T) Diagnose(f func() []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.diagnoses = append(t.diagnoses, f)
}

// Bounds of a diagnosis: a case may have made a thousand QPs, and the driver that is asked has a fault.
const (
	maxDiagnoses  = 16
	diagnosisTime = time.Second
)

// diagnose adds the state of the case's objects to the result, if the case has failed.
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

// described calls f. A panic of the driver is an answer like any other.
func described(f func() []string) (lines []string) {
	defer func() {
		if p := recover(); p != nil {
			lines = append(lines, fmt.Sprintf("panic: %v", p))
		}
	}()
	return f()
}
