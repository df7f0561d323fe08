import { inspect } from "node:util";

const FORMAT = /^(-?)([0-9]+)(?:\.([0-9]{1,2}))?$/;

// Amount is an exact sum of money. It is immutable, and printed and encoded in JSON as
// rupees with two decimals: "199.00".
export class Amount {
  constructor(paise) {
    if (typeof paise !== "bigint") {
      throw new TypeError("an Amount is made of paise as a bigint, or of a text by Amount.parse");
    }
    this.paise = paise;
    Object.freeze(this);
  }

  // parse reads rupees from a text such as "199.00". A number is not accepted: it is a
  // binary fraction, and not exact.
  static parse(text) {
    const parts = typeof text === "string" ? FORMAT.exec(text) : null;
    if (parts === null) {
      throw new RangeError(`${inspect(text)} is no amount: write rupees as a text with at most two decimals`);
    }
    const [, sign, rupees, decimals = ""] = parts;
    const paise = BigInt(rupees + decimals.padEnd(2, "0"));
    return new Amount(sign === "-" ? -paise : paise);
  }

  plus(other) {
    return new Amount(this.paise + paiseOf(other));
  }

  minus(other) {
    return new Amount(this.paise - paiseOf(other));
  }

  // compare returns -1, 0 or 1, as Array.prototype.sort expects it.
  compare(other) {
    const theirs = paiseOf(other);
    return this.paise < theirs ? -1 : this.paise > theirs ? 1 : 0;
  }

  equals(other) {
    return other instanceof Amount && this.paise === other.paise;
  }

  toString() {
    const digits = String(this.paise < 0n ? -this.paise : this.paise).padStart(3, "0");
    return `${this.paise < 0n ? "-" : ""}${digits.slice(0, -2)}.${digits.slice(-2)}`;
  }

  toJSON() {
    return this.toString();
  }

  // The operators < and - would turn an amount into a binary fraction, or compare paise
  // with rupees.
  [Symbol.toPrimitive](hint) {
    if (hint === "number") {
      throw new TypeError("an Amount is not a number: use compare, plus and minus");
    }
    return this.toString();
  }

  [inspect.custom]() {
    return `Amount(${this})`;
  }
}

function paiseOf(amount) {
  if (!(amount instanceof Amount)) {
    throw new TypeError(`${inspect(amount)} is not an Amount`);
  }
  return amount.paise;
}
