package validate

import "fmt"

// Step names the step that the case begins, for a case with several variants; kit.Variants calls it for each. Failures,
// panics and hangs are reported with the step in which they occurred. An empty format ends the last step.
//
//	for _, delta := range []int{1000, -1001} {
//		t.Step("PSN %+d", delta)
//		...
//	}
//
// Steps belong to the case's goroutine. A failure reported by another goroutine has the current step, unless
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
