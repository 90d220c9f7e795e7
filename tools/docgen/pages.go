package main

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ciddk/ci"
)

// sourceCI is the source of most pages.
const sourceCI = "package ci"

// generatedNote is the comment that follows the title of a generated page.
func generatedNote(source string) string {
	return "<!-- Written by tools/docgen from " + source + ". Do not edit: go generate ./tools/docgen -->\n"
}

//go:embed text
var texts embed.FS

// text returns the constant text of a page, from text/NAME.txt.
func text(name string) string {
	b, err := texts.ReadFile("text/" + name + ".txt")
	if err != nil {
		panic(err) // names are constants
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// head returns the beginning of a page generated from package ci: the text called name, with the note below its title.
func head(name string) string { return headFrom(name, sourceCI) }

func headFrom(name, source string) string {
	title, rest, _ := strings.Cut(text(name), "\n\n")
	return title + "\n\n" + generatedNote(source) + "\n" + rest
}

// headerStatuses are the names of the 2003 headers, by value, without their IB_ prefix. They are compared with the Go
// names.
var headerStatuses = strings.Fields(`
	SUCCESS INSUFFICIENT_RESOURCES INSUFFICIENT_MEMORY INVALID_PARAMETER INVALID_SETTING NOT_FOUND
	TIMEOUT CANCELED INTERRUPTED INVALID_PERMISSION UNSUPPORTED OVERFLOW MAX_MCAST_QPS_REACHED INVALID_QP_STATE
	INVALID_APM_STATE INVALID_PORT_STATE INVALID_STATE RESOURCE_BUSY INVALID_PKEY INVALID_LKEY INVALID_RKEY
	INVALID_MAX_WRS
	INVALID_MAX_SGE INVALID_CQ_SIZE INVALID_SRQ_SIZE INVALID_SERVICE_TYPE INVALID_GID INVALID_LID INVALID_GUID
	INVALID_GUID_MASK INVALID_CA_HANDLE INVALID_AV_HANDLE INVALID_CQ_HANDLE INVALID_QP_HANDLE INVALID_SRQ_HANDLE
	INVALID_PD_HANDLE INVALID_MR_HANDLE INVALID_FMR_HANDLE INVALID_MW_HANDLE INVALID_MCAST_HANDLE INVALID_CALLBACK
	INVALID_AL_HANDLE INVALID_HANDLE ERROR REMOTE_ERROR VERBS_PROCESSING_DONE INVALID_WR_TYPE QP_IN_TIMEWAIT
	EE_IN_TIMEWAIT
	INVALID_PORT NOT_DONE INVALID_INDEX NO_MATCH PENDING UNKNOWN_ERROR`)

// statusMeanings are the meanings of those constants in ci that have no comment because their names suffice.
var statusMeanings = map[string]string{
	"Success": "done; never returned as an error", "Canceled": "the request was cancelled",
	"Interrupted":        "a wait was interrupted",
	"MaxMcastQPsReached": "no multicast attachment is left", "InvalidQPState": "not legal in the QP's state, or no " +
		"such transition",
	"InvalidAPMState": "not legal in the path migration state", "InvalidPortState": "not legal in the port's state",
	"InvalidState": "adapter in reset or removed; access layer: parent being destroyed",
	"InvalidPKey":  "P_Key index out of range, or its entry is invalid", "InvalidLKey": "no such L_Key",
	"InvalidRKey":   "no such or not the current R_Key",
	"InvalidMaxWRs": "queue depth beyond the limit", "InvalidMaxSGE": "number of SGEs beyond the limit",
	"InvalidCQSize":  "CQ size beyond the limit, or 0",
	"InvalidSRQSize": "SRQ size beyond the limit", "InvalidGID": "not a usable GID", "InvalidLID": "not a usable LID",
	"InvalidGUID": "no adapter or port with that GUID", "InvalidGUIDMask": "bad GUID mask",
	"InvalidCallback": "callback missing or unsuitable",
	"InvalidWRType":   "opcode illegal for this kind of QP", "QPInTimewait": "QP still in time-wait",
	"EEInTimewait": "EE context still in time-wait",
	"InvalidPort":  "port number out of range", "NotDone": "not finished", "InvalidIndex": "index out of range",
	"NoMatch": "no item with those attributes", "Pending": "in progress",
	"UnknownError": "an error that is no status; " +
		"never returned by a driver",
}

func statusPage(s *ciSource) (string, error) {
	cs := append([]constant{{name: "Success"}}, s.consts["Status"]...) // an untyped constant, and value 0
	if len(cs) != len(headerStatuses) {
		return "", fmt.Errorf("ci has %d statuses, the headers %d", len(cs), len(headerStatuses))
	}
	users := map[string][]string{}
	for _, iface := range ifaces {
		for _, m := range s.methods(iface) {
			for _, st := range s.statuses(m.doc) {
				users[st] = append(users[st], "`"+iface+"."+m.name+"`")
			}
		}
	}
	var b strings.Builder
	b.WriteString(head("statuses"))
	inHandle := false
	for i, c := range cs {
		doc := c.doc
		if doc == "" {
			doc = statusMeanings[c.name]
		}
		inHandle = strings.HasSuffix(c.name, "Handle")
		if doc == "" && inHandle {
			doc = "as `InvalidCAHandle`"
		}
		if doc == "" {
			return "", fmt.Errorf("status %s has no meaning", c.name)
		}
		fmt.Fprintf(&b, "| %d | `%s` | `%s` | %s | %s |\n", i, c.name, headerStatuses[i], cell(doc),
			strings.Join(users[c.name], " "))
	}
	return b.String(), nil
}

// completionCauses describe which side sees a completion status and why, from IBTA volume 1, 11.6.2 and the fault table
// of the certifier.
var completionCauses = []struct{ side, cause string }{
	{"both", "done"},
	{"both", "send: longer than the port or, for UD, the path can carry; receive: the buffers are too small for the " +
		"message"},
	{"both", "inconsistency inside the QP; a UD send through an unusable address vector"},
	{"both", "an SGE's key, domain, bounds or rights are wrong"},
	{"both", "the QP went to Error (or its send queue to SQError) before this work was done"},
	{"requester", "the bind's rights are not those of region or QP"},
	{"requester", "the peer refused the R_Key, its bounds or its rights"},
	{"requester", "the peer could not carry the request out"},
	{"requester", "the peer had no receive posted, RNRRetry times over"},
	{"requester", "no acknowledgement, RetryCount times over"},
	{"requester", "the peer refused the request itself: opcode, length, misaligned atomic, too many reads at once"},
	{"requester", "a response that does not fit the request"},
	{"responder", "the local buffer behind an inbound write with immediate was not accessible"},
	{"both", "none of the others"},
	{"access layer", "a MAD response without request"},
	{"access layer", "a MAD request was cancelled"},
	{"both", "the operation was aborted (UD with SRQ)"},
}

func completionPage(s *ciSource) (string, error) {
	cs := s.consts["WCStatus"]
	if len(cs) != len(completionCauses) {
		return "", fmt.Errorf("ci has %d completion statuses, this table %d", len(cs), len(completionCauses))
	}
	var b strings.Builder
	b.WriteString(head("completions"))
	for i, c := range cs {
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s | %s |\n", i, c.name, ci.WCStatus(i), completionCauses[i].side,
			completionCauses[i].cause)
	}
	b.WriteString(text("wcops"))
	ops := []struct {
		op   ci.WCOp
		of   string
		name string
	}{
		{ci.WCSend, "`OpSend`", "WCSend"}, {ci.WCWrite, "`OpWrite`", "WCWrite"}, {ci.WCRead, "`OpRead`", "WCRead"},
		{ci.WCCompareSwap, "`OpCompareSwap`", "WCCompareSwap"}, {ci.WCFetchAdd, "`OpFetchAdd`", "WCFetchAdd"},
		{ci.WCBindMW, "`QP.BindMW`, `OpBindMW`", "WCBindMW"}, {ci.WCNop, "`OpNop`", "WCNop"},
		{ci.WCLSO, "`OpLSO`", "WCLSO"},
		{ci.WCLocalInv, "`OpLocalInv`", "WCLocalInv"}, {ci.WCFastReg, "`OpFastReg`", "WCFastReg"},
		{ci.WCAtomicWrite, "`OpAtomicWrite`", "WCAtomicWrite"}, {ci.WCFlush, "`OpFlush`", "WCFlush"},
		{ci.WCRecv, "a receive, by a SEND of the peer", "WCRecv"},
		{ci.WCRecvWrite, "a receive, by an RDMA WRITE with immediate of the peer", "WCRecvWrite"},
	}
	if len(ops) != len(s.consts["WCOp"]) {
		return "", fmt.Errorf("ci has %d completion operations, this table %d", len(s.consts["WCOp"]), len(ops))
	}
	for _, o := range ops {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", o.op, o.name, o.of)
	}
	b.WriteString("\n## Flags\n\n| Go | meaning |\n|---|---|\n")
	for _, c := range s.consts["WCFlags"] {
		doc := c.doc
		if doc == "" {
			doc = "Imm is valid"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.name, cell(doc))
	}
	return b.String(), nil
}

// eventRows describe the object of an event and what a consumer does with it.
var eventRows = []struct{ object, optional, reaction string }{
	{"QP", "yes", "the send queue is in SQError (UC, UD)"},
	{"QP", "when asked for with QPAttr.SQDEvent", "the send queue is drained; attributes may be changed"},
	{"QP", "yes", "the receive queue failed"},
	{"CQ", "no", "entries were lost; destroy the CQ and its QPs"},
	{"QP", "no", "the QP is in Error for a reason of the adapter's own"},
	{"QP", "no", "the first packet came while in RTR: a communication manager takes the connection as established"},
	{"QP", "with CapAPM", "the alternate path is now the primary; load another and rearm"},
	{"CA", "no", "the adapter is of no use any more; close and open again"},
	{"port", "yes", "a packet with a wrong P_Key"}, {"port", "yes", "a datagram with a wrong Q_Key"},
	{"port", "yes", "a management packet with a wrong M_Key"},
	{"port", "yes", "capabilities changed; query again"}, {"port", "yes", "the system image GUID changed"},
	{"port", "yes", "the link's buffers overran"}, {"port", "yes", "too many link errors"},
	{"port", "yes", "the link's flow control failed"}, {"port", "yes", "a management packet with a wrong B_Key"},
	{"QP", "with CapAPM", "the peer asked to migrate, and is not followed"},
	{"QP", "no", "a request of the peer was not legal; the QP is in Error"},
	{"QP", "no", "a request of the peer was denied access; the QP is in Error"},
	{"port", "with CapPortActiveEvent", "the port is Active; query its attributes"},
	{"port", "no", "the port left Active"},
	{"port", "no", "the subnet manager asks to register multicast and services again"},
	{"SRQ", "with CapSRQ", "fewer than Limit receives are left; post and arm again"},
	{"SRQ", "with CapSRQ", "the SRQ failed"},
	{"QP", "with CapSRQ", "a QP in Error takes no more from its SRQ; it may be destroyed"},
	{"CA", "vendor", "the driver resets the adapter"}, {"CA", "vendor", "a client must let go"},
	{"CA", "vendor", "the reset is over"}, {"CA", "vendor", "the reset failed"},
	{"port", "recommended", "query LID again; paths to this port change"},
	{"port", "recommended", "query the P_Key table again"},
	{"port", "recommended", "query SMLID again"}, {"port", "recommended", "query the GID table again"},
	{"CA", "vendor", "the adapter goes away"},
	{"CQ", "vendor detail", "comes beside EventCQError"},
	{"port", "recommended", "the link has trained; a subnet manager takes the port to Active"},
}

func eventPage(s *ciSource) (string, error) {
	cs := s.consts["EventType"]
	if len(cs) != len(eventRows) {
		return "", fmt.Errorf("ci has %d events, this table %d", len(cs), len(eventRows))
	}
	var b strings.Builder
	b.WriteString(head("events"))
	for i, c := range cs {
		r := eventRows[i]
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s | %s | %s |\n", i+1, c.name, ci.EventType(i+1), r.object,
			r.optional, r.reaction)
	}
	return b.String(), nil
}

// ifaces is the order in which the pages list the interfaces of ci.
var ifaces = []string{"Registrar", "HCA", "CA", "UserCA", "PD", "AV", "CQ", "SRQ", "QP", "Mcast", "MR", "FMR", "MW",
	"DMA", "RDD", "EEC"}

// otherUses describe the capability bits that no verb's comment names.
var otherUses = map[string]string{
	"CapUC": "QPs of type UC", "CapUD": "QPs of type UD", "CapRD": "QPs of type RD, `PD.AllocRDD` and all below it",
	"CapRawMulticast":   "`QP.AttachMcast` of a raw QP",
	"CapZeroBased":      "the ZeroBased access bit, for regions and for windows of type 2",
	"CapSendInvalidate": "the SendInvalidate flag", "CapLSO": "`OpLSO`",
	"CapIPChecksum":        "the SendIPChecksum and SendL4Checksum flags, WCChecksumOK",
	"CapModifyWRDepth":     "QPFieldSendDepth, QPFieldRecvDepth",
	"CapAPM":               "QPFieldAlternate, QPFieldAPM; the path migration events",
	"CapChangePrimaryPort": "QPFieldPort from SQD to RTS",
	"CapCurrentQPState":    "QPFieldCurrentState", "CapShutdownPort": "PortFieldShutdown",
	"CapInitType":        "PortFieldInitType",
	"CapPortActiveEvent": "EventPortActive", "CapSystemGUID": "CAAttr.SystemGUID, PortFieldSystemGUID",
	"CapPKeyCounter": "PortAttr.PKeyErrors and its reset", "CapQKeyCounter": "PortAttr.QKeyErrors and its reset",
	"CapAtomicWrite":     "OpAtomicWrite",
	"CapFlush":           "OpFlush and the right FlushGlobal",
	"CapFlushPersistent": "the right FlushPersistent, for PersistentMemory; with CapFlush",
	"CapMW2":             "MWType2, `OpBindMW`, `OpLocalInv`", "CapFastReg": "`OpFastReg`, `OpLocalInv`",
	"CapHardwareSMA": "the adapter answers " +
		"SMPs itself",
}

func capsPage(s *ciSource) (string, error) {
	var b strings.Builder
	b.WriteString(head("capabilities"))

	for _, c := range s.consts["Caps"] {
		var verbs []string
		for _, iface := range ifaces {
			for _, m := range s.methods(iface) {
				if slices.Contains(capRE.FindAllString(m.doc, -1), c.name) {
					verbs = append(verbs, "`"+iface+"."+m.name+"`")
				}
			}
		}
		use := otherUses[c.name]
		if use == "" && len(verbs) == 0 {
			return "", fmt.Errorf("nothing says what %s is for", c.name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.name, strings.Join(verbs, " "), use)
	}
	return b.String(), nil
}

func verbsPage(s *ciSource) (string, error) {
	var b strings.Builder
	b.WriteString(head("verbs"))

	rows, err := mapping(s.doc)
	if err != nil {
		return "", err
	}
	covered := map[int]bool{}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r[0], cell(r[1]), cell(r[2]))
		for _, n := range expand(r[0]) {
			covered[n] = true
		}
	}
	var missing []string
	for n := 1; n <= 67; n++ {
		if !covered[n] {
			missing = append(missing, fmt.Sprint(n))
		}
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("the mapping in ci/doc.go has no row for %s", strings.Join(missing, ", "))
	}
	b.WriteString("\n" + text("contexts") + "\n")
	for _, iface := range ifaces {
		ms := s.methods(iface)
		if len(ms) == 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n", iface)
		fmt.Fprintf(&b, "%s\n\n| verb | SAS | context | claim | statuses | requirements |\n|---|---|---|---|---|---|\n",
			s.ifcdocs[iface])
		for _, m := range ms {
			doc := m.doc
			if m.name == "Destroy" && doc == "" {
				doc = s.ifcdocs[iface]
			}
			context := "–"
			if m.name == "Destroy" && callbackRE.MatchString(doc) {
				context = "callback"
			} else if c := contextRE.FindStringSubmatch(doc); c != nil {
				context = c[1]
			} else if m.name == "Destroy" {
				context = "drain"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", cell(m.sig),
				join(ciNameRE.FindAllString(doc, -1)), context,
				join(uniq(capRE.FindAllString(doc, -1))), join(s.statuses(doc)), strings.Join(requirements(doc), " "))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// mapping takes the rows of the table under "Mapping" from the package comment: number, ci verb, Go.
func mapping(doc string) ([][3]string, error) {
	_, rest, ok := strings.Cut(doc, "# Mapping")
	if !ok {
		return nil, errors.New("ci/doc.go has no section Mapping")
	}
	rest, _, _ = strings.Cut(rest, "\n# ")
	var rows [][3]string
	var at [2]int
	for line := range strings.SplitSeq(rest, "\n") {
		t := strings.TrimRight(line, " ")
		switch {
		case strings.TrimSpace(t) == "":
		case at[0] == 0:
			at = [2]int{strings.Index(t, "ci verb"), strings.Index(t, "Go")}
			if at[0] < 0 || at[1] < at[0] {
				return nil, fmt.Errorf("the mapping's head is %q", t)
			}
		default:
			r := []rune(t)
			if len(r) <= at[1] {
				return nil, fmt.Errorf("short row in the mapping: %q", t)
			}
			rows = append(rows, [3]string{strings.TrimSpace(string(r[:at[0]])),
				strings.TrimSpace(string(r[at[0]:at[1]])),
				strings.TrimSpace(string(r[at[1]:]))})
		}
	}
	return rows, nil
}

// expand returns the numbers of "1", "2, 3" or "5-7".
func expand(s string) []int {
	var l []int
	for part := range strings.SplitSeq(s, ",") {
		var a, z int
		part = strings.TrimSpace(part)
		if n, _ := fmt.Sscanf(part, "%d-%d", &a, &z); n == 2 {
			for ; a <= z; a++ {
				l = append(l, a)
			}
		} else if n, _ := fmt.Sscanf(part, "%d", &a); n == 1 {
			l = append(l, a)
		}
	}
	return l
}

func uniq(l []string) []string {
	l = slices.Clone(l)
	slices.Sort(l)
	return slices.Compact(l)
}

func join(l []string) string {
	if len(l) == 0 {
		return "–"
	}
	return "`" + strings.Join(l, "` `") + "`"
}
