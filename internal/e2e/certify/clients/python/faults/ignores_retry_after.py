"""Wrong: repeats a 429 after 0.1 s instead of Retry-After; the minute's requests stay used up, other orders wait too."""
import client


class Call(client.Call):
    def after_429(self, step, answer):
        return client.Next(step, 0.1)
