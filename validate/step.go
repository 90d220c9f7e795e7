package validate

import "fmt"

// Step names what the case does from now on, for a case that runs several variants (kit.Variants ranges over them): findings name the step in which they
// were made, and so does the report of a panic or a hang. An empty format ends the last step.
//
//	for _, delta := range []int{1000, -1001} {
//		t.Step("PSN %+d", delta)
//		...
//	}
//
// Steps belong to the case's goroutine. A finding of another goroutine names the step of that time, unless
// Failure.Step is set.
func (t *T) Step(format string, args ...any) {
	step := format
	if len(args) > 0 {
		step = fmt.Sprintf(format, args...)
	}
	t.mu.Lock()
	t.step = step
	t.mu.Unlock()
	if t.onStep != nil {
		t.onStep(step)
	}
}

// CurrentStep returns the step that Step has set.
func (t *T) CurrentStep() string { t.mu.Lock(); defer t.mu.Unlock(); return t.step }
