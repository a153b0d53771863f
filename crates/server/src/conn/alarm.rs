//! A deadline that moves with every request and almost never expires.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;
use tokio::time::Sleep;

/// Fires at the deadline or before it. Moving a runtime timer costs more than an early wake-up, so
/// the timer moves only to an earlier time. The woken task checks the clock and sets the alarm
/// again.
#[derive(Debug, Default)]
pub struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    set_for: Option<Instant>,
}

impl Alarm {
    /// Makes sure that the alarm fires by `due`.
    pub fn set(&mut self, due: Option<Instant>) {
        let Some(due) = due else { return };
        if self.set_for.is_some_and(|set_for| set_for <= due) {
            return;
        }
        self.set_for = Some(due);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(due.into()),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(due.into()))),
        }
    }

    /// Returns when the alarm fires. Cancel safe.
    pub async fn rings(&mut self) {
        poll_fn(|cx| match (&mut self.sleep, self.set_for) {
            (Some(sleep), Some(_)) => sleep.as_mut().poll(cx),
            _ => Poll::Pending,
        })
        .await;
        self.set_for = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn alarm_fires_once_at_the_earliest_requested_time() {
        let mut alarm = Alarm::default();
        let now = Instant::now();
        alarm.set(Some(now + Duration::from_hours(1)));
        alarm.set(Some(now + Duration::from_millis(10)));
        alarm.set(Some(now + Duration::from_hours(2)));
        alarm.rings().await;
        assert!(now.elapsed() >= Duration::from_millis(10));
        let again = tokio::time::timeout(Duration::from_millis(30), alarm.rings()).await;
        assert!(again.is_err(), "it must be set anew");
    }
}
