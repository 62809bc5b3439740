package skills

var DigestOf = digestOf
