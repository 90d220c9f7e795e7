package explore

import (
	"cmp"
	"context"
	"reflect"
	"runtime"
	"time"

	"ciddk/validate"
	"ciddk/validate/model"
)

// shrink makes the trace of a finding shorter while the same rule is broken at the same place.
func (c *Config) shrink(ctx context.Context, t *validate.Target, f *Finding) {
	ctx, stop := context.WithTimeout(ctx, cmp.Or(c.ShrinkTime, 20*time.Second))
	defer stop()
	limit := c.Limit
	if f.Violation.Doubt {
		limit = min(limit, 100*time.Millisecond)
	}
	fails := func(trace Trace) *model.Violation {
		if ctx.Err() != nil {
			return nil
		}
		v, hang, err := c.replay(ctx, t, trace, limit)
		if err != nil || hang != "" || v == nil || v.Rule != f.Violation.Rule {
			return nil
		}
		return v
	}
	keep := len(prelude())
	try := func(trace Trace) bool {
		v := fails(trace)
		if v != nil {
			f.Trace, f.Violation = trace, v
		}
		return v != nil
	}
	for n := max(len(f.Trace)/2, 1); n > 0 && ctx.Err() == nil; {
		shorter := false
		for i := len(f.Trace) - n; i >= keep; {
			if try(append(append(Trace(nil), f.Trace[:i]...), f.Trace[i+n:]...)) {
				shorter = true
			}
			i = min(i-n, len(f.Trace)-n)
			if i < keep && i > keep-n && n > 1 {
				i = keep
			} else if i < keep {
				break
			}
		}
		if !shorter || n > len(f.Trace) {
			n /= 2
		}
	}
	for i := keep; i < len(f.Trace); i++ {
		for _, s := range smaller(f.Trace[i]) {
			next := append(Trace(nil), f.Trace...)
			next[i] = s
			try(next)
		}
	}
}

// smaller returns variants of a step: with shorter lists.
func smaller(s Step) (out []Step) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || f.Len() < 2 {
			continue
		}
		for k := range f.Len() {
			c := reflect.New(v.Type()).Elem()
			c.Set(v)
			l := reflect.MakeSlice(f.Type(), 0, f.Len()-1)
			c.Field(i).Set(reflect.AppendSlice(reflect.AppendSlice(l, f.Slice(0, k)), f.Slice(k+1, f.Len())))
			out = append(out, c.Interface().(Step))
		}
	}
	return out
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	buf := make([]byte, 1<<18)
	return string(buf[:runtime.Stack(buf, true)])
}
