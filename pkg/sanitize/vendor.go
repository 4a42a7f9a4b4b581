package sanitize

import "strings"

// alphabet is a set of characters of which a token is made.
type alphabet uint8

const (
	upperDigits alphabet = iota // A-Z 0-9
	hexDigits                   // 0-9 a-f
	alnums                      // A-Z a-z 0-9
	words                       // alnums and _
	dashed                      // words and -
	dotted                      // dashed and .
	base64s                     // dashed and + / =
)

func (a alphabet) has(c byte) bool {
	switch a {
	case upperDigits:
		return isUpper(c) || isDigit(c)
	case hexDigits:
		return isHex(c)
	case alnums:
		return isAlnum(c)
	case words:
		return isAlnum(c) || c == '_'
	case dashed:
		return isAlnum(c) || c == '_' || c == '-'
	case dotted:
		return isAlnum(c) || c == '_' || c == '-' || c == '.'
	default:
		return isAlnum(c) || c == '_' || c == '-' || c == '+' || c == '/' || c == '='
	}
}

// A vendorToken is how the tokens of one service look: a prefix, then at least
// least characters of the alphabet. Truncated tokens count, so least is below
// the full length wherever the prefix is telling.
type vendorToken struct {
	prefix string
	of     alphabet
	least  int
}

// vendorTokens are grouped by the first letter of the prefix.
var vendorTokens = [256][]vendorToken{
	'A': {
		{"AKIA", upperDigits, 12}, {"ASIA", upperDigits, 12}, {"AROA", upperDigits, 16}, {"AIDA", upperDigits, 16},
		{"ABIA", upperDigits, 16}, {"ACCA", upperDigits, 16}, {"AGPA", upperDigits, 16}, {"ANPA", upperDigits, 16},
		{"AIza", dashed, 20}, {"AC", hexDigits, 32}, {"AGE-SECRET-KEY-1", alnums, 20}, {"ATATT3", base64s, 20},
		{"ATCTT3", base64s, 20}, {"ATBB", alnums, 24}, {"A3T", upperDigits, 13}, {"A3-", dashed, 24}, {"API-", upperDigits, 20},
	},
	'C': {{"CFPAT-", dashed, 20}, {"CLOJARS_", alnums, 20}},
	'D': {{"DSN.", dashed, 20}},
	'E': {{"EAAC", alnums, 20}, {"EAAG", alnums, 20}, {"EAAA", dashed, 20}, {"EZAK", alnums, 40}, {"EZTK", alnums, 40}},
	'F': {{"FLWSECK_", dashed, 12}, {"FLWSECK-", dashed, 12}},
	'G': {{"GOCSPX-", dashed, 16}, {"GR1348941", dashed, 16}},
	'L': {{"LTAI", alnums, 12}},
	'N': {{"NRAK-", upperDigits, 20}, {"NRJS-", hexDigits, 16}},
	'P': {{"PMAK-", dashed, 20}},
	'S': {{"SG.", dotted, 16}, {"SK", hexDigits, 32}, {"SCW", upperDigits, 17}},
	'a': {{"api_org_", alnums, 20}, {"acc_", dotted, 40}},
	'b': {{"bedrock-api-key-", base64s, 12}},
	'd': {
		{"dop_v1_", hexDigits, 16}, {"doo_v1_", hexDigits, 16}, {"dor_v1_", hexDigits, 16}, {"dapi", hexDigits, 24},
		{"dckr_pat_", dashed, 16}, {"dckr_oat_", dashed, 16}, {"dt0c01.", dotted, 24}, {"dp.pt.", alnums, 20},
		{"dp.st.", dotted, 20}, {"duffel_test_", dashed, 20}, {"duffel_live_", dashed, 20}, {"dG9rO", base64s, 20},
	},
	'e': {{"eu01xx", hexDigits, 20}, {"eyJrIjoi", base64s, 16}},
	'f': {{"fio-u-", dashed, 20}, {"fo1_", dashed, 20}, {"fm1_", base64s, 20}, {"fm2_", base64s, 20}},
	'g': {
		{"ghp_", alnums, 10}, {"gho_", alnums, 10}, {"ghs_", alnums, 10}, {"ghu_", alnums, 10}, {"ghr_", alnums, 10},
		{"github_pat_", words, 10}, {"glpat-", dotted, 10}, {"gldt-", dotted, 10}, {"glrt-", dotted, 10},
		{"glcbt-", dashed, 10}, {"glptt-", dotted, 10}, {"glft-", dotted, 10}, {"glimt-", dashed, 10},
		{"glagent-", dashed, 10}, {"gloas-", dashed, 10}, {"glsoat-", dashed, 10}, {"glffct-", dashed, 10},
		{"glc_", base64s, 16}, {"glsa_", words, 16}, {"gsk_", alnums, 20},
	},
	'h': {{"hvs.", dashed, 10}, {"hvb.", dashed, 10}, {"hvr.", dashed, 10}, {"hf_", alnums, 20}, {"hooks.slack.com/services/", base64s, 12}},
	'i': {{"ico-", alnums, 24}},
	'k': {{"key-", hexDigits, 32}},
	'l': {{"lin_api_", alnums, 16}, {"lin_oauth_", alnums, 16}},
	'n': {{"npm_", alnums, 16}, {"ntn_", alnums, 20}, {"nfp_", alnums, 20}, {"nvapi-", dashed, 20}},
	'o': {{"oy2", alnums, 40}, {"ops_eyJ", base64s, 16}},
	'p': {
		{"pypi-", dashed, 16}, {"pscale_tkn_", dotted, 16}, {"pscale_pw_", dotted, 16}, {"pscale_oauth_", dotted, 16},
		{"pul-", hexDigits, 20}, {"pplx-", alnums, 20}, {"phc_", alnums, 20}, {"phx_", alnums, 20}, {"pk_live_", alnums, 10},
		{"pat-na1-", dashed, 20}, {"pat-eu1-", dashed, 20}, {"pat", dotted, 70}, {"pat.", dotted, 40},
	},
	'r': {{"rk_live_", alnums, 10}, {"rk_test_", alnums, 10}, {"rk_prod_", alnums, 10}, {"rubygems_", hexDigits, 16}, {"rdme_", alnums, 20}, {"r8_", alnums, 20}, {"re_", words, 24}},
	's': {
		{"sk_live_", alnums, 10}, {"sk_test_", alnums, 10}, {"sk_prod_", alnums, 10}, {"sk-ant-", dashed, 16}, {"sk-proj-", dashed, 16},
		{"sk-svcacct-", dashed, 16}, {"sk-or-", dashed, 16}, {"sk-", alnums, 20}, {"shpat_", hexDigits, 16},
		{"shpca_", hexDigits, 16}, {"shppa_", hexDigits, 16}, {"shpss_", hexDigits, 16}, {"sq0atp-", dashed, 12},
		{"sq0csp-", dashed, 12}, {"sbp_", hexDigits, 16}, {"sb_secret_", dashed, 12}, {"sntrys_", base64s, 20},
		{"sntryu_", hexDigits, 20}, {"sgp_", alnums, 20}, {"secret_", alnums, 32}, {"sl.", dashed, 40},
		{"squ_", hexDigits, 20}, {"sqp_", hexDigits, 20}, {"sqa_", hexDigits, 20}, {"shippo_live_", hexDigits, 16},
		{"shippo_test_", hexDigits, 16}, {"s.", alnums, 22}, {"scauth_", dotted, 24}, {"sat.", dotted, 40},
		{"sm_pat_", alnums, 12}, {"sm_sat_", alnums, 12}, {"sm_aat_", alnums, 12}, {"sha256~", dashed, 32},
	},
	't': {{"tfp_", dotted, 20}, {"tskey-", dashed, 12}, {"tk-us-", dashed, 24}},
	'u': {{"ubi_", alnums, 30}},
	'v': {{"vercel_", alnums, 20}, {"v1.0-", hexDigits, 40}},
	'w': {{"whsec_", base64s, 12}},
	'x': {
		{"xoxb-", dashed, 8}, {"xoxp-", dashed, 8}, {"xoxa-", dashed, 8}, {"xoxr-", dashed, 8}, {"xoxs-", dashed, 8},
		{"xoxe-", dashed, 8}, {"xoxo-", dashed, 8}, {"xoxc-", dashed, 8}, {"xoxd-", base64s, 8}, {"xoxe.xox", dotted, 8},
		{"xapp-", dashed, 8}, {"xkeysib-", dashed, 16}, {"xai-", alnums, 20}, {"xsmtpsib-", dashed, 16},
	},
	'y': {{"ya29.", dashed, 10}},
}

// vendor looks at a word at t[i] and returns the span of a token that a known
// service has issued.
func (s *scanner) vendor(i int) (start, end int) {
	t := s.t
	for _, v := range vendorTokens[t[i]] {
		if !strings.HasPrefix(t[i:], v.prefix) {
			continue
		}
		end = i + len(v.prefix)
		for end < len(t) && v.of.has(t[end]) {
			end++
		}
		for v.of == dotted && t[end-1] == '.' || v.of == base64s && t[end-1] == '/' {
			end--
		}
		if end-i-len(v.prefix) >= v.least {
			return i, tokenTail(t, end)
		}
	}
	return 0, 0
}

// tokenTail returns where a token ends of which the characters before t[end]
// are known: what adjoins it without a separator belongs to it.
func tokenTail(t string, end int) int {
	sign := false // an equals sign inside
	for end < len(t) {
		switch c := t[end]; {
		case isAlnum(c), sign && dashed.has(c):
		case c == '=' && end+1 < len(t) && (dashed.has(t[end+1]) || t[end+1] == '='):
			sign = true
		default:
			return end
		}
		end++
	}
	return end
}
