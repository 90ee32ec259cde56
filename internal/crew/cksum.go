package crew

// cksum returns the checksum of POSIX cksum(1): that of the bytes followed by their number, least
// significant byte first, without leading zeros.
func cksum(data []byte) uint32 {
	sum := uint32(0)
	add := func(b byte) { sum = sum<<8 ^ cksumTable[byte(sum>>24)^b] }
	for _, b := range data {
		add(b)
	}
	for n := len(data); n > 0; n >>= 8 {
		add(byte(n))
	}
	return ^sum
}

// cksumTable has the remainders of all bytes by the polynomial of IEEE 802.3, most significant bit
// first (hash/crc32 has the least significant one first).
var cksumTable = func() (table [256]uint32) {
	for i := range table {
		sum := uint32(i) << 24
		for range 8 {
			carry := sum >> 31
			sum = sum<<1 ^ carry*0x04c11db7
		}
		table[i] = sum
	}
	return table
}()
