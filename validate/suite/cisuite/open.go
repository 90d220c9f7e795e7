package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// openCases are the cases of HCA.OpenCA and CA.Destroy. (SAS 2.2, IBTA 11.2.1.)
var openCases = &validate.Area{Feature: validate.FeatureCore}

func noEvents(ci.Event) {}

var _ = openCases.With(validate.Case{Checks: []string{req.SAS2_1_26.ID, req.SAS2_2_02.ID}}).Add("open.guid",
	"open with the GUID that Info returns", func(t *validate.T) {
		info := t.HCA().Info()
		kit.True(t, info.GUID != 0, "HCA.Info", "a GUID other than 0", "zero")
		ca, err := t.HCA().OpenCA(info.GUID, noEvents, nil)
		kit.OK(t, err, "HCA.OpenCA with the GUID from Info")
		t.Cleanup(func() { _ = ca.Destroy() })
		attr, err := ca.Query()
		t.Charge("SAS-2.2-02", func() { kit.OK(t, err, "CA.Query") })
		t.Charge("SAS-2.1-26", func() { kit.Equal(t, "CAAttr.GUID", attr.GUID, info.GUID) })
		kit.Equal(t, "CAAttr.VendorID", attr.VendorID, info.VendorID)
		kit.Equal(t, "CAAttr.DeviceID", attr.DeviceID, info.DeviceID)
		kit.OK(t, ca.Destroy(), "CA.Destroy")
	}, openCases.Must("CI-OpenCA-02", "IBTA 11.2.1", "ci_open_ca (1), ci_close_ca (7)",
		"OpenCA with the GUID that Info returns opens the HCA. Its attributes have the same GUID."), req.SAS2_1_26,
	req.SAS2_2_02)

var _ = openCases.Add("open.unknown", "open with an unknown GUID", func(t *validate.T) {
	known := map[ci.GUID]bool{0: true}
	for _, h := range t.HCAs() {
		known[h.Info().GUID] = true
	}
	own := t.HCA().Info().GUID
	for _, g := range kit.Variants(t, "GUID", []ci.GUID{own + 1, own ^ 1<<63, ^own, 1}) {
		if known[g] {
			continue
		}
		ca, err := t.HCA().OpenCA(g, noEvents, nil)
		refusedCA(t, ca, err, "HCA.OpenCA with an unknown GUID", ci.NotFound)
	}
	kit.Open(t) // the rejected opens have left the HCA closed
}, req.SAS2_1_27)

var _ = openCases.Add("open.arguments", "open with GUID 0, and without a callback", func(t *validate.T) {
	ca, err := t.HCA().OpenCA(0, noEvents, nil)
	refusedCA(t, ca, err, "HCA.OpenCA with GUID 0", ci.InvalidParameter)
	ca, err = t.HCA().OpenCA(t.HCA().Info().GUID, nil, nil)
	refusedCA(t, ca, err, "HCA.OpenCA without a callback", ci.InvalidParameter)
	kit.Open(t)
}, openCases.Must("CI-OpenCA-01", "IBTA 11.2.1", "ci_open_ca (1), ci_close_ca (7)",
	"OpenCA with GUID 0 or with a nil event callback fails with InvalidParameter."))

// refusedCA is kit.WantRefused for CAs.
func refusedCA(t *validate.T, ca ci.CA, err error, where string, want ci.Status) {
	if err == nil && ca != nil {
		t.Cleanup(func() { _ = ca.Destroy() })
	}
	kit.WantExactly(t, err, where, want)
	kit.True(t, ca == nil, where, "no CA together with the error", "a CA of type %T", ca)
}

var _ = openCases.Add("open.twice", "open an open CA", func(t *validate.T) {
	first := kit.Open(t)
	second, err := t.HCA().OpenCA(t.HCA().Info().GUID, noEvents, nil)
	refusedCA(t, second, err, "HCA.OpenCA of an open HCA", ci.ResourceBusy)
	_, err = first.Query()
	kit.OK(t, err, "CA.Query of the first open after the rejected one")
}, req.SAS2_2_08)

var ciCloseCA02 = openCases.Must("CI-CloseCA-02", "IBTA 11.2.1", "ci_open_ca (1), ci_close_ca (7)",
	"After Destroy each verb of the CA fails with InvalidCAHandle, and the HCA can be opened again.")

var _ = openCases.Add("open.reopen", "open, close and open again, ten times", func(t *validate.T) {
	guid := t.HCA().Info().GUID
	for range 10 {
		ca, err := t.HCA().OpenCA(guid, noEvents, nil)
		kit.OK(t, err, "HCA.OpenCA")
		kit.OK(t, ca.Destroy(), "CA.Destroy")
		_, err = ca.Query()
		kit.WantExactly(t, err, "CA.Query after Destroy", ci.InvalidCAHandle)
		pd, err := ca.AllocatePD(ci.PDNormal)
		kit.WantRefused(t, pd, err, "CA.AllocatePD after Destroy", ci.InvalidCAHandle)
		kit.WantExactly(t, ca.Destroy(), "second CA.Destroy", ci.InvalidCAHandle)
	}
}, ciCloseCA02, req.SAS2_2_08)

var _ = openCases.Add("open.close-busy", "close a CA that has a PD", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	kit.WantExactly(t, ca.Destroy(), "CA.Destroy of a CA with a PD", ci.ResourceBusy)
	_, err := ca.Query()
	kit.OK(t, err, "CA.Query after the rejected CA.Destroy")
	kit.Destroy(t, pd, "PD")
	kit.OK(t, ca.Destroy(), "CA.Destroy after the PD was destroyed")
}, openCases.Must("CI-CloseCA-01", "IBTA 11.2.1", "ci_open_ca (1), ci_close_ca (7)",
	"Destroy of a CA that has objects fails with ResourceBusy and changes nothing."), req.SAS2_3_26)
