// Wrong: takes TIMESTAMP_EXPIRED for a failure; no order is carried out once the machine's clock is five minutes off.
export default (Client) =>
  class extends Client {
    correctClock() {
      return false;
    }
  };
