package mad

// NoticeRecordLen is the length of a Notice in subnet administration, in bytes.
const NoticeRecordLen = NoticeLen + 16

// NoticeRecord is a Notice in subnet administration, where the GID of the issuer follows it (15.2.5.1). It is the
// attribute of Report and ReportResp.
type NoticeRecord struct {
	Notice    Notice   // bytes 0-63
	IssuerGID [16]byte // bytes 64-79
}

// Put writes the attribute to b[:NoticeRecordLen]. It panics if b is shorter.
func (n *NoticeRecord) Put(b []byte) {
	_ = b[NoticeRecordLen-1]
	n.Notice.Put(b)
	copy(b[NoticeLen:NoticeRecordLen], n.IssuerGID[:])
}

// Parse reads the attribute from b[:NoticeRecordLen]. It panics if b is shorter.
func (n *NoticeRecord) Parse(b []byte) {
	_ = b[NoticeRecordLen-1]
	n.Notice.Parse(b)
	n.IssuerGID = [16]byte(b[NoticeLen:NoticeRecordLen])
}
