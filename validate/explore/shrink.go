package explore

import (
	"cmp"
	"context"
	"reflect"
	"runtime"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/internal/model"
	"ciddk/validate"
)

// shrink makes the trace of a finding shorter while the same rule is broken at the same place.
func (c *Config) shrink(ctx context.Context, t *validate.Target, f *Finding) {
	ctx, stop := context.WithTimeout(ctx, cmp.Or(c.ShrinkTime, 20*time.Second))
	defer stop()
	limit := c.Limit
	isLossy := slices.ContainsFunc(f.Trace, func(s Step) bool { _, ok := s.(Link); return ok })
	if f.Violation.Doubt && !isLossy { // with losses, it takes as long as the retries
		limit = min(limit, 100*time.Millisecond)
	}
	fails := func(trace Trace) *model.Violation {
		if ctx.Err() != nil {
			return nil
		}
		v, hang, err := c.replay(ctx, t, trace, limit, dropTime)
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
	for isNew := true; isNew && ctx.Err() == nil; {
		isNew = false
		for n := max(len(f.Trace)/2, 1); n > 0 && ctx.Err() == nil; {
			shorter := false
			for i := len(f.Trace) - n; i >= keep && i+n <= len(f.Trace); {
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
		for i := keep; i < len(f.Trace); {
			if slices.ContainsFunc(smaller(f.Trace, i), try) {
				isNew = true
			} else {
				i++
			}
		}
	}
}

// smaller returns variants of a trace with step i made smaller: with shorter lists, and with default values.
func smaller(t Trace, i int) (out []Trace) {
	with := func(s Step) {
		if n := append(append(append(Trace(nil), t[:i]...), s), t[i+1:]...); !reflect.DeepEqual(s, t[i]) {
			out = append(out, n)
		}
	}
	v := reflect.ValueOf(t[i])
	for k := range v.NumField() {
		f := v.Field(k)
		if f.Kind() != reflect.Slice || f.Len() < 2 {
			continue
		}
		for k2 := range f.Len() {
			c := reflect.New(v.Type()).Elem()
			c.Set(v)
			l := reflect.MakeSlice(f.Type(), 0, f.Len()-1)
			c.Field(k).Set(reflect.AppendSlice(reflect.AppendSlice(l, f.Slice(0, k2)), f.Slice(k2+1, f.Len())))
			with(c.Interface().(Step))
		}
	}
	switch s := t[i].(type) {
	case NewCQ:
		out = append(out, fewer(t, i, s.Size, func(n int) Step { return NewCQ{s.As, s.PD, n} })...)
	case Resize:
		out = append(out, fewer(t, i, s.Size, func(n int) Step { return Resize{s.CQ, n} })...)
	case NewQP:
		x := s
		x.SRQ, x.Flags, x.Inline = 0, 0, 0
		with(x)
		x = s
		x.SendCQ = x.RecvCQ
		with(x)
	case Connect:
		x := s
		x.PSN, x.PKey, x.AtRTR = [2]ci.PSN{}, [2]uint16{}, false
		x.Access, x.RNR, x.MinRNR = allRemote, 7, 1
		with(x)
	case Send:
		for k, w := range s.WRs {
			for _, flags := range []ci.SendFlags{ci.SendSignaled, w.Flags & (ci.SendSignaled | ci.SendImmediate)} {
				x := s
				x.WRs = slices.Clone(s.WRs)
				x.WRs[k].Flags = flags
				with(x)
			}
		}
	}
	return out
}

// fewer returns variants of a trace in which a CQ is small. What fills it must become shorter at the same time, since a
// step that might overflow it is skipped: each list of requests has at most one entry, or is in steps of one each.
func fewer(t Trace, i, size int, with func(int) Step) (out []Trace) {
	for n := 1; n < min(size, 5); n++ {
		var split Trace
		for k, x := range t {
			if k == i {
				x = with(n)
			}
			switch x := x.(type) {
			case Send:
				for j := range x.WRs {
					split = append(split, Send{x.QP, x.WRs[j : j+1], x.Overflow})
				}
				continue
			case Recv:
				for j := range x.WRs {
					split = append(split, Recv{x.Queue, x.WRs[j : j+1]})
				}
				continue
			}
			split = append(split, x)
		}
		out = append(out, split)
	}
	return out
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	buf := make([]byte, 1<<18)
	return string(buf[:runtime.Stack(buf, true)])
}
