package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// openArea returns the cases of HCA.OpenCA and CA.Destroy. (SAS 2.2, IBTA 11.2.1.)
func openArea() validate.Suite {
	must := func(id, text string) req.Requirement {
		return req.Driver.Must(id, "IBTA 11.2.1", "ci_open_ca (1), ci_close_ca (7)", text)
	}
	return validate.Suite{
		Requirements: []req.Requirement{
			must("CI-OpenCA-01", "OpenCA with GUID 0 or with a nil event callback fails with InvalidParameter."),
			must("CI-OpenCA-02",
				"OpenCA with the GUID that Info returns opens the HCA. Its attributes have the same GUID."),
			must("CI-CloseCA-01", "Destroy of a CA that has objects fails with ResourceBusy and changes nothing."),
			must("CI-CloseCA-02",
				"After Destroy each verb of the CA fails with InvalidCAHandle, and the HCA can be opened again."),
		},
		Cases: []validate.Case{
			{ID: "open.guid", Title: "open with the GUID that Info returns", Feature: validate.FeatureCore,
				Requirements: []string{"CI-OpenCA-02", "SAS-2.1-26", "SAS-2.2-02"},
				Checks:       []string{"SAS-2.1-26", "SAS-2.2-02"}, Run: openGUID},
			{ID: "open.unknown", Title: "open with an unknown GUID", Feature: validate.FeatureCore,
				Requirements: []string{"SAS-2.1-27"}, Run: openUnknown},
			{ID: "open.arguments", Title: "open with GUID 0, and without a callback", Feature: validate.FeatureCore,
				Requirements: []string{"CI-OpenCA-01"}, Run: openArguments},
			{ID: "open.twice", Title: "open an open CA", Feature: validate.FeatureCore,
				Requirements: []string{"SAS-2.2-08"}, Run: openTwice},
			{ID: "open.reopen", Title: "open, close and open again, ten times", Feature: validate.FeatureCore,
				Requirements: []string{"CI-CloseCA-02", "SAS-2.2-08"}, Run: openReopen},
			{ID: "open.close-busy", Title: "close a CA that has a PD", Feature: validate.FeatureCore,
				Requirements: []string{"CI-CloseCA-01", "SAS-2.3-26"}, Run: openCloseBusy},
		},
	}
}

func noEvents(ci.Event) {}

func openGUID(t *validate.T) {
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
}

func openUnknown(t *validate.T) {
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
}

func openArguments(t *validate.T) {
	ca, err := t.HCA().OpenCA(0, noEvents, nil)
	refusedCA(t, ca, err, "HCA.OpenCA with GUID 0", ci.InvalidParameter)
	ca, err = t.HCA().OpenCA(t.HCA().Info().GUID, nil, nil)
	refusedCA(t, ca, err, "HCA.OpenCA without a callback", ci.InvalidParameter)
	kit.Open(t)
}

// refusedCA is kit.WantRefused for CAs.
func refusedCA(t *validate.T, ca ci.CA, err error, where string, want ci.Status) {
	if err == nil && ca != nil {
		t.Cleanup(func() { _ = ca.Destroy() })
	}
	kit.WantExactly(t, err, where, want)
	kit.True(t, ca == nil, where, "no CA together with the error", "a CA of type %T", ca)
}

func openTwice(t *validate.T) {
	first := kit.Open(t)
	second, err := t.HCA().OpenCA(t.HCA().Info().GUID, noEvents, nil)
	refusedCA(t, second, err, "HCA.OpenCA of an open HCA", ci.ResourceBusy)
	_, err = first.Query()
	kit.OK(t, err, "CA.Query of the first open after the rejected one")
}

func openReopen(t *validate.T) {
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
}

func openCloseBusy(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	kit.WantExactly(t, ca.Destroy(), "CA.Destroy of a CA with a PD", ci.ResourceBusy)
	_, err := ca.Query()
	kit.OK(t, err, "CA.Query after the rejected CA.Destroy")
	kit.Destroy(t, pd, "PD")
	kit.OK(t, ca.Destroy(), "CA.Destroy after the PD was destroyed")
}
